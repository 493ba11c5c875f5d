import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { findInterpreter, type Search } from '../src/interpreter.ts';

const ENDING = '.cpython-311-test.so';
/** Programs that are scripts cannot be started as a Python is on Windows. */
const skip = process.platform === 'win32' ? 'needs scripts that run like programs' : false;

let folder: string;
let log: string[];

beforeEach(() => {
  folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'torchstray client ')));
  log = [];
});

afterEach(() => fs.rmSync(folder, { recursive: true }));

/** Write a program below the test's folder; return its path. */
function program(name: string, script: string): string {
  const file = path.join(folder, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return file;
}

/** Write a program that answers as a Python of this version does. */
function python(
  name: string,
  version: string,
  { endings = [ENDING], installed = false, executable = '$0' } = {},
): string {
  const answer = JSON.stringify({ version: version.split('.').map(Number), executable, endings, installed });
  return program(name, `echo "${answer.replaceAll('"', '\\"')}"`);
}

/** Make a bundle with compiled parts of these endings; return its path. */
function bundle(...endings: string[]): string {
  const libcst = path.join(folder, 'bundled', 'libcst');
  fs.mkdirSync(libcst, { recursive: true });
  for (const ending of endings) fs.writeFileSync(path.join(libcst, `native${ending}`), '');
  return path.dirname(libcst);
}

/** Search with nothing set and nothing installed but what `given` says. */
function find(given: Partial<Search>) {
  return findInterpreter({
    setting: '',
    environment: async () => undefined,
    untrusted: [],
    bundle: bundle('.cpython-310-test.so', ENDING, '.cpython-314-test.so'),
    cwd: folder,
    searchPath: '',
    limit: 10_000,
    log: (line) => log.push(line),
    ...given,
  });
}

/** Check that the setting is refused for a reason. */
async function refused(setting: string, reason: string | RegExp, given: Partial<Search> = {}): Promise<void> {
  await assert.rejects(find({ setting, ...given }), (error: Error) => {
    const [, said = ''] = /^the setting torchstray\.interpreter does not work: (.*)\.$/.exec(error.message) ?? [];
    if (typeof reason === 'string') assert.equal(said, `${setting} ${reason}`);
    else assert.match(said, reason);
    return true;
  });
}

/** Find a Python of this machine that is new enough; return its path, version and the ending of compiled parts. */
function realPython(): string[] | undefined {
  const script = `import importlib.machinery, json, platform, sys
assert sys.version_info >= (3, 10)
print(json.dumps([sys.executable, platform.python_version(), importlib.machinery.EXTENSION_SUFFIXES[0]]))`;
  const names = ['python3', 'python', ...[14, 13, 12, 11, 10].map((minor) => `python3.${minor}`)];
  const answers = names.map((name) => spawnSync(name, ['-c', script], { encoding: 'utf8' }));
  const good = answers.find((answer) => answer.status === 0);
  return good && JSON.parse(good.stdout);
}

test('a real Python is asked in isolation', async (t) => {
  const [real = '', version = '', ending = ''] = realPython() ?? [];
  if (!real) return t.skip('needs Python 3.10 or newer on PATH');
  fs.writeFileSync(path.join(folder, 'json.py'), 'raise SystemExit("not the standard library")');
  process.env.PYTHONPATH = folder;
  t.after(() => delete process.env.PYTHONPATH);
  const found = await find({ setting: real, bundle: bundle(ending) });
  assert.equal(found.version, version.replace(/[^\d.].*/, ''));
  assert.equal(found.origin, 'the setting torchstray.interpreter');
  assert.equal(execFileSync(found.path, ['-I', '-c', 'print(1)'], { encoding: 'utf8' }).trim(), '1');
  await refused(real, /^.* does not work: not the standard library$/, { bundle: undefined });
});

test('a setting that does not work is not passed over', { skip }, async () => {
  python('bin/python3', '3.11.7');
  const missing = path.join(folder, 'no such python');
  await refused(missing, 'does not exist', { searchPath: path.join(folder, 'bin') });
  assert.deepEqual(log, [`Python from the setting torchstray.interpreter: ${missing} does not exist`]);
});

test('what is no Python is refused in plain words', { skip }, async () => {
  const text = path.join(folder, 'text');
  fs.writeFileSync(text, 'hello');
  await refused(folder, 'is a folder, not a Python');
  await refused(text, 'may not be run: it is not executable');
  await refused(path.join(text, 'python'), 'does not exist');
  await refused('no-such-python', 'is not on PATH');
  await refused(program('talks', 'echo hello; echo world'), 'is not a Python: it says "world"');
  await refused(program('counts', 'echo 1'), 'is not a Python: it says "1"');
  await refused(program('silent', ''), 'is not a Python: it says ""');
  await refused(program('fails', 'echo reason >&2; exit 3'), 'does not work: reason');
  await refused(program('not a program', '\0'.repeat(10)), /^.* (is not a Python|does not work): /);
});

test('a Python that does not answer is given up', { skip, timeout: 20_000 }, async () => {
  await refused(program('hangs', 'sleep 60'), 'did not answer within 0.3 seconds', { limit: 300 });
});

test('versions without a compiled part are refused', { skip }, async () => {
  const range = 'Python 3.10 to 3.14 is needed';
  await refused(python('a', '3.9.18'), `is Python 3.9.18, and ${range}`);
  await refused(python('b', '3.15.0'), `is Python 3.15.0, and ${range}`);
  await refused(python('c', '3.12.1'), `is Python 3.12.1, and ${range}`);
  await refused(python('d', '4.11.0'), `is Python 4.11.0, and ${range}`);
  await refused(program('e', 'echo "Unknown option: -I" >&2; exit 2'), 'is Python 2, which is too old');
  const other = python('f', '3.11.7', { endings: ['.cpython-311t-test.so', '.so'] });
  await refused(other, 'is a build of Python (.cpython-311t-test.so) that this package of torchstray is not made for');
});

test('without a bundle torchstray has to be installed', { skip }, async () => {
  const given = { bundle: undefined };
  const bare = python('bare', '3.15.0');
  await refused(bare, 'has no torchstray: install it there, or set torchstray.importStrategy to useBundled', given);
  await refused(
    python('old', '3.9.18', { installed: true }),
    'is Python 3.9.18, and Python 3.10 or newer is needed',
    given,
  );
  const full = python('full', '3.15.0', { installed: true });
  assert.equal((await find({ setting: full, ...given })).path, full);
});

test('the first that works of the Python extension and PATH is used', { skip }, async () => {
  const chosen = python('chosen/python', '3.14.0', { endings: [ENDING] });
  const old = python('old/python', '3.8.18');
  const first = python('bin/python3', '3.11.7');
  python('bin/python', '3.10.1');
  const searchPath = path.join(folder, 'bin');
  assert.deepEqual(await find({ environment: async () => chosen, searchPath }), {
    path: chosen,
    version: '3.14.0',
    origin: 'the Python extension',
  });
  assert.deepEqual(await find({ environment: async () => old, searchPath }), {
    path: first,
    version: '3.11.7',
    origin: 'PATH',
  });
  assert.ok(
    log.includes(`Python from the Python extension: ${old} is Python 3.8.18, and Python 3.10 to 3.14 is needed`),
  );
  assert.equal(log.at(-1), `Python from PATH: ${first} is used`);
});

test('a Python extension that fails or does not answer is passed over', { skip, timeout: 20_000 }, async (t) => {
  const busy = setInterval(() => {}, 1000); // an editor has always something left to do
  t.after(() => clearInterval(busy));
  const first = python('bin/python3', '3.11.7');
  const searchPath = path.join(folder, 'bin');
  const fails = async () => {
    throw new Error('no environments');
  };
  assert.equal((await find({ environment: fails, searchPath })).path, first);
  assert.ok(log.includes('Error: no environments'));
  const hangs = () => new Promise<undefined>(() => {});
  assert.equal((await find({ environment: hangs, searchPath, limit: 2000 })).path, first);
});

test('PATH is searched for any Python that the bundle is made for', { skip }, async () => {
  python('bin/python3', '3.9.2');
  const newer = python('bin/python3.11', '3.11.7');
  assert.equal((await find({ searchPath: path.join(folder, 'bin') })).path, newer);
  assert.ok(log.includes('Python from PATH: there is no python'));
});

test('relative entries of PATH are not searched', { skip }, async () => {
  python('python3', '3.11.7');
  await assert.rejects(find({ searchPath: ['.', '', path.relative(process.cwd(), folder)].join(path.delimiter) }), {
    message: 'no Python was found, and Python 3.10 to 3.14 is needed.',
  });
});

test('where none works, each that was tried is named with the reason', { skip }, async () => {
  const old = python('bin/python3', '3.9.2');
  await assert.rejects(find({ searchPath: path.join(folder, 'bin') }), {
    message: `no Python that can run it was found: ${old} is Python 3.9.2, and Python 3.10 to 3.14 is needed.`,
  });
});

test('nothing is run from a folder that is not trusted', { skip }, async () => {
  const workspace = path.join(folder, 'workspace');
  const inside = python('workspace/..venv/bin/python3', '3.11.7');
  const outside = python('workspace of mine/python3', '3.11.7');
  fs.symlinkSync(path.dirname(inside), path.join(folder, 'link'));
  const given = { untrusted: [workspace], workspaceFolder: workspace };
  const searchPath = [path.dirname(inside), path.join(folder, 'link'), path.dirname(outside)].join(path.delimiter);
  assert.equal((await find({ searchPath, ...given })).path, outside);
  for (const setting of [inside, '..venv/bin/python3', path.join(folder, 'link', 'python3')]) {
    await refused(setting, /lies in this workspace, which is not trusted$/, given);
  }
});

test('the setting may be relative to the workspace or to home, or a name on PATH', { skip }, async (t) => {
  const file = python('my venv/bin/python', '3.11.7');
  const { HOME } = process.env;
  process.env.HOME = folder;
  t.after(() => {
    process.env.HOME = HOME;
  });
  const searchPath = path.dirname(file);
  for (const setting of [
    'my venv/bin/python',
    `\${workspaceFolder}/my venv/bin/python`,
    '~/my venv/bin/python',
    'python',
  ]) {
    assert.equal((await find({ setting, searchPath, workspaceFolder: folder })).path, file);
  }
  assert.equal((await find({ setting: 'my venv/bin/python' })).path, file);
});

test('a shim is asked once: what it starts is what runs the server', { skip }, async () => {
  const target = python('versions/python', '3.11.7');
  assert.equal((await find({ setting: python('shim', '3.11.7', { executable: target }) })).path, target);
  const wrapper = python('wrapper', '3.11.7', { executable: '/in/a/container/python' });
  assert.equal((await find({ setting: wrapper })).path, wrapper);
});
