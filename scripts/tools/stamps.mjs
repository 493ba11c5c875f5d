// @ts-check
// What makes the second run quick: a step is left out while what it was made from is unchanged.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { already, ROOT, step } from './console.mjs';

/**
 * @typedef {object} Product
 * @property {string} name what the stamp is filed under
 * @property {string} title what is said of it
 * @property {string[]} inputs files and folders it is made from, relative to the root; those missing count as empty
 * @property {string[]} [facts] what else it depends on, such as a version
 * @property {() => string | undefined} output the file that is there once it is made
 */

/**
 * Make a product, unless it is there and made from the same inputs.
 * @param {Product} product
 * @param {() => Promise<void>} make
 * @returns {Promise<string>} the path of its output
 */
export async function ensure({ name, title, inputs, facts = [], output }, make) {
  const stamp = path.join(ROOT, '.tools', 'stamps', name);
  const wanted = digest(inputs, facts);
  const made = output();
  if (made && fs.existsSync(made) && fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === wanted) {
    already(`${title}: up to date`);
    return made;
  }
  fs.rmSync(stamp, { force: true });
  await step(title, make);
  const result = output();
  if (!result || !fs.existsSync(result)) throw new Error(`${title}: nothing was made`);
  fs.mkdirSync(path.dirname(stamp), { recursive: true });
  fs.writeFileSync(stamp, wanted);
  return result;
}

/**
 * @param {string[]} inputs
 * @param {string[]} facts
 */
function digest(inputs, facts) {
  const hash = createHash('sha256').update(JSON.stringify(facts));
  for (const input of inputs) {
    for (const file of files(path.join(ROOT, input))) {
      hash.update(`\0${path.relative(ROOT, file)}\0`).update(fs.readFileSync(file));
    }
  }
  return hash.digest('hex');
}

/**
 * @param {string} place
 * @returns {string[]} the file itself, or the files below the folder in a fixed order, without caches
 */
function files(place) {
  const stat = fs.statSync(place, { throwIfNoEntry: false });
  if (!stat) return [];
  if (stat.isFile()) return [place];
  return fs
    .readdirSync(place)
    .filter((name) => !name.startsWith('.') && name !== '__pycache__')
    .sort()
    .flatMap((name) => files(path.join(place, name)));
}
