// @ts-check
// Builds the client into client/dist, with the licences of the packages in it; with --tests its tests, into
// build/client-test.mjs.
import fs from 'node:fs';
import path from 'node:path';
import * as esbuild from 'esbuild';
import { ROOT } from './tools/console.mjs';

const DIST = path.join(ROOT, 'client', 'dist');
/** @type {esbuild.BuildOptions} */
const COMMON = { absWorkingDir: ROOT, bundle: true, logLevel: 'warning', platform: 'node', target: 'node20' };

async function buildClient() {
  const built = await esbuild.build({
    ...COMMON,
    entryPoints: ['client/src/extension.ts'],
    external: ['vscode'],
    format: 'cjs',
    metafile: true,
    minify: true,
    outfile: path.join(DIST, 'extension.js'),
  });
  fs.writeFileSync(path.join(DIST, 'licences.txt'), licences(Object.keys(built.metafile.inputs)));
}

/**
 * @param {string[]} inputs the files that the client is made of, relative to the root
 * @returns {string} the licence of each package that they come from
 */
function licences(inputs) {
  const packages = new Set(
    inputs.flatMap((input) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []),
  );
  const texts = [...packages].sort().map((folder) => {
    const { name, version } = JSON.parse(fs.readFileSync(path.join(ROOT, folder, 'package.json'), 'utf8'));
    const file = fs.readdirSync(path.join(ROOT, folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} has no licence`);
    return `${name} ${version}\n\n${fs.readFileSync(path.join(ROOT, folder, file), 'utf8').trim()}\n`;
  });
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

async function buildTests() {
  const folder = path.join(ROOT, 'client', 'test');
  const tests = fs.readdirSync(folder).filter((name) => name.endsWith('.test.ts'));
  await esbuild.build({
    ...COMMON,
    stdin: { contents: tests.map((name) => `import './${name}';`).join('\n'), resolveDir: folder },
    format: 'esm',
    sourcemap: 'inline',
    outfile: 'build/client-test.mjs',
  });
}

await (process.argv.includes('--tests') ? buildTests() : buildClient());
