// @ts-check
// Makes the extension's package of a platform, build/torchstray-TARGET.vsix, and says what it holds:
//     npm run package [-- --target linux-x64]
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Problem, ROOT, run, runScript, step } from './tools/console.mjs';
import { thisTarget } from './tools/extension.mjs';
import { ensureEnvironment, PYTHON } from './tools/python.mjs';

/** What a package may hold. Anything else, such as a test, a source or a source map, is a mistake. */
const ALLOWED = [
  /^\[Content_Types\]\.xml$/,
  /^extension\.vsixmanifest$/,
  /^extension\/(package\.json|readme\.md|changelog\.md|LICENSE\.txt)$/,
  /^extension\/client\/(dist\/(extension\.js|licences\.txt)|icon\.png)$/,
  /^extension\/bundled\/__main__\.py$/,
  /^extension\/bundled\/torchstray\/(?!tests\/).+\.(py|json|md)$/,
  /^extension\/bundled\/(attrs?|cattrs?|click|exceptiongroup|libcst|lsprotocol|pathspec|pygls|tomli)\/(?!tests\/).+\.py$/,
  /^extension\/bundled\/libcst\/native\.[\w.-]+\.(so|pyd)$/,
  /^extension\/bundled\/typing_extensions\.py$/,
  /^extension\/bundled\/[\w.]+-[\w.]+\.dist-info\/(METADATA|licenses\/.+)$/,
];
/** What a package has to hold. */
const NEEDED = [
  'client/dist/extension.js',
  'client/icon.png',
  'bundled/__main__.py',
  'bundled/pygls/__init__.py',
  'bundled/torchstray/cli.py',
  'bundled/torchstray/docs/rules/index.md',
  'bundled/torchstray/semantics/torch_api.json',
];
const PYTHONS = 5;

/** @param {string} target */
async function bundle(target) {
  await run(PYTHON, ['scripts/bundle.py', 'bundled', '--platform', target]);
}

/**
 * @param {string} target
 * @param {string} file
 */
async function pack(target, file) {
  // vsce wants a newer Node than the user may have.
  const node = path.join('node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
  const vsce = [path.join('node_modules', '@vscode', 'vsce', 'vsce'), 'package', '--no-dependencies'];
  const readme = ['--readme-path', 'client/README.md', '--no-rewrite-relative-links', '--allow-missing-repository'];
  await run(node, [...vsce, ...readme, '--target', target, '--out', file]);
}

/**
 * @param {string} file
 * @returns {Promise<Record<string, number>>} the size of each file in the package, by path
 */
async function contents(file) {
  const script = [
    'import json, sys, zipfile',
    'print(json.dumps({entry.filename: entry.file_size for entry in zipfile.ZipFile(sys.argv[1]).infolist()}))',
  ].join('\n');
  return JSON.parse(await run(PYTHON, ['-c', script, file]));
}

/**
 * @param {string[]} files
 * @throws {Problem} if something is missing, or there that should not be
 */
function verify(files) {
  const strangers = files.filter((file) => !ALLOWED.some((allowed) => allowed.test(file)));
  const missing = NEEDED.filter((file) => !files.includes(`extension/${file}`));
  const compiled = files.filter((file) => file.startsWith('extension/bundled/libcst/native.'));
  const mistakes = [
    ...strangers.map((file) => `  ${file} should not be in it`),
    ...missing.map((file) => `  ${file} is missing`),
  ];
  if (compiled.length !== PYTHONS) mistakes.push(`  it has ${compiled.length} compiled parts, not ${PYTHONS}`);
  if (mistakes.length > 0) throw new Problem(`The package is not as it should be:\n${mistakes.join('\n')}`);
}

/** @param {Record<string, number>} sizes */
function summary(sizes) {
  /** @type {Map<string, { count: number, size: number }>} */
  const parts = new Map();
  for (const [file, size] of Object.entries(sizes)) {
    const [, first = '', second = '', third = ''] = /^extension\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?/.exec(file) ?? [];
    const compiled = third.startsWith('native.') ? third : '';
    const part = path.posix.join(first || file, second.endsWith('.dist-info') ? 'licences' : second, compiled);
    const { count, size: sum } = parts.get(part) ?? { count: 0, size: 0 };
    parts.set(part, { count: count + 1, size: sum + size });
  }
  const lines = [...parts].map(([part, { count, size }]) => {
    const kilobytes = `${(size / 1000).toFixed(0)} kB`.padStart(10);
    return `${kilobytes}  ${part}${count > 1 ? ` (${count} files)` : ''}`;
  });
  return lines.sort((one, other) => Number.parseInt(other, 10) - Number.parseInt(one, 10)).join('\n');
}

await runScript(async () => {
  const { values } = parseArgs({ options: { target: { type: 'string', default: thisTarget() } } });
  const { target } = values;
  const file = path.join(ROOT, 'build', `torchstray-${target}.vsix`);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  await ensureEnvironment();
  await step('Client', () => run(process.execPath, ['scripts/build.mjs']));
  await step(`Server for ${target}`, () => bundle(target));
  const unverified = path.join(path.dirname(file), `unverified-${target}.vsix`);
  await step('Package', () => pack(target, unverified));
  if (target !== thisTarget()) await step('Server for this machine again', () => bundle(thisTarget()));
  const sizes = await contents(unverified);
  verify(Object.keys(sizes));
  fs.renameSync(unverified, file);
  console.log(`\n${summary(sizes)}\n`);
  console.log(`${file}: ${(fs.statSync(file).size / 1e6).toFixed(1)} MB, ${Object.keys(sizes).length} files`);
  return 0;
});
