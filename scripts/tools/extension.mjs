// @ts-check
// The extension: what it is run from in the checkout, and its package.
import path from 'node:path';
import { ROOT, run, step } from './console.mjs';
import { PYTHON } from './python.mjs';
import { ensure } from './stamps.mjs';

const CLIENT = [
  'client/src',
  'client/icon.png',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'scripts/build.mjs',
];
const SERVER = ['server/torchstray', 'docs/rules', 'pyproject.toml', 'scripts/bundle.py'];

/** The package for this machine, once it is made. */
export const PACKAGE = path.join(ROOT, 'build', `torchstray-${thisTarget()}.vsix`);

/** Build the client, and the folder with the server and all that it needs. */
export async function ensureExtension() {
  await step('Extension: the client', async () => {
    await run(process.execPath, ['scripts/build.mjs']);
  });
  await step('Extension: the server and what it needs', async () => {
    await run(PYTHON, ['scripts/bundle.py', 'bundled']);
  });
}

/** @returns {Promise<string>} the path of the package (VSIX) for this machine */
export function ensurePackage() {
  const texts = ['client/README.md', 'LICENSE', 'CHANGELOG.md', '.vscodeignore', 'scripts/package.mjs'];
  return ensure(
    {
      name: 'vsix',
      title: 'Extension package (VSIX)',
      inputs: [...CLIENT, ...SERVER, ...texts],
      output: () => PACKAGE,
    },
    async () => {
      await run(process.execPath, ['scripts/package.mjs']);
    },
  );
}

/** @returns {string} the editors' name for this machine, such as linux-x64 */
export function thisTarget() {
  const report = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  const isMusl = process.platform === 'linux' && report.header.glibcVersionRuntime === undefined;
  return `${isMusl ? 'alpine' : process.platform}-${process.arch}`;
}
