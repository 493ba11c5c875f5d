// @ts-check
// The browser that the tests look at VS Code with.
import fs from 'node:fs';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { findProgram, Problem, ROOT } from './console.mjs';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const WAY_OUT = 'sudo apt-get install -y chromium, or CHROME_PATH=/path/to/chrome';
/** The fonts of the machine, and the one that comes with the npm package for a machine that has none. */
const FONTS = `<?xml version="1.0"?>
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir prefix="relative">fonts</dir>
</fontconfig>
`;

/**
 * @typedef {object} Browser
 * @property {string} executablePath
 * @property {string[]} args
 * @property {NodeJS.ProcessEnv} env
 */

/**
 * Find a Chromium and start it once.
 * @returns {Promise<Browser>} what playwright starts it with
 * @throws {Problem} if there is none, or it does not start
 */
export async function findChromium() {
  const browser = await candidate();
  try {
    const started = await chromium.launch(browser);
    await started.close();
    return browser;
  } catch (error) {
    const reason = /error while loading shared libraries: .*|spawn .*/.exec(String(error))?.[0] ?? String(error);
    throw new Problem(`${browser.executablePath} does not start (${reason.trim()}): ${WAY_OUT}`);
  }
}

async function candidate() {
  const args = ['--disable-dev-shm-usage', '--disable-gpu'];
  const executablePath = process.env.CHROME_PATH ?? NAMES.map(findProgram).find(Boolean);
  if (executablePath) return { executablePath, args, env: process.env };
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new Problem(`No Chromium was found: ${WAY_OUT}`);
  const folder = await unpacked();
  const env = { FONTCONFIG_FILE: path.join(folder, 'fonts.conf'), ...process.env };
  return { executablePath: path.join(folder, 'chromium'), args, env };
}

/** @returns {Promise<string>} the folder with the Chromium that an npm package has in a compressed file */
async function unpacked() {
  const folder = path.join(ROOT, '.tools', 'chromium');
  if (fs.existsSync(folder)) return folder;
  const partial = `${folder}.partial`;
  fs.rmSync(partial, { recursive: true, force: true });
  fs.mkdirSync(partial, { recursive: true });
  const { TMPDIR } = process.env;
  process.env.TMPDIR = partial; // where it is unpacked; the usual folder is one that others can write to
  try {
    const { default: packed } = await import('@sparticuz/chromium');
    await packed.executablePath();
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  }
  fs.writeFileSync(path.join(partial, 'fonts.conf'), FONTS);
  fs.renameSync(partial, folder);
  return folder;
}
