// @ts-check
// npm test: set everything up, run every test, and say what passed, what failed, and what could not be run.
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ensureCodeServer } from './tools/code-server.mjs';
import { Problem, ROOT, runLive, runScript, span } from './tools/console.mjs';
import { ensureExtension, ensurePackage } from './tools/extension.mjs';
import { checkNode, ensureNodePackages } from './tools/node.mjs';
import { checkPython, ensureEnvironment, findPython, findPythons, PYTHON } from './tools/python.mjs';

/**
 * @typedef {object} Outcome
 * @property {string} name
 * @property {'passed' | 'failed' | 'not run'} result
 * @property {string} [note] how long it took, or why it was not run
 */

/** What each part does, in the order in which they run. */
const PARTS = {
  client: 'the client: format, types, unit tests',
  package: 'the package of the extension (VSIX)',
  lint: 'Python: linter, types, generated files',
  tests: 'Python: all tests, the protocol and Neovim among them',
  smoke: 'Python: the wheel alone, on each supported version',
  editor: 'end to end in a real VS Code',
};
/** @typedef {keyof typeof PARTS} Part */

const USAGE = `npm test [-- OPTIONS]

Sets everything up and runs every test. It installs no system packages: what cannot be had here is listed at the end with
the command that brings it.

  --only PART            run this part only; may be given more than once
  --strict               fail, too, if anything was not run
  --allow-missing NAME   but for this: a name as in the summary, such as smoke-3.14; may be given more than once
  --help                 show this

Parts:
${Object.entries(PARTS)
  .map(([name, does]) => `  ${name.padEnd(8)} ${does}`)
  .join('\n')}`;

await runScript(async () => {
  checkNode();
  const options = readOptions();
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const wanted = (/** @type {Part} */ name) => options.only.length === 0 || options.only.includes(name);
  checkPython();
  await ensureNodePackages();
  await ensureEnvironment();
  await ensureExtension();
  /** @type {Outcome[]} */
  const outcomes = [];
  if (wanted('client')) outcomes.push(await client());
  if (wanted('package')) outcomes.push(await attempt('package', packaged));
  const sessions = /** @type {Part[]} */ (['lint', 'tests', 'smoke']).filter(wanted);
  if (sessions.length) outcomes.push(...(await python(sessions)));
  if (wanted('editor')) outcomes.push(await attempt('editor', editor));
  return summary(outcomes, options);
});

/** @typedef {ReturnType<typeof readOptions>} Options */

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: 'string', multiple: true },
        strict: { type: 'boolean' },
        'allow-missing': { type: 'string', multiple: true },
        help: { type: 'boolean', short: 'h' },
      },
    });
    const { only = [], strict = false, 'allow-missing': allowed = [], help = false } = values;
    const unknown = only.find((name) => !(name in PARTS));
    if (unknown !== undefined) throw new Error(`There is no part '${unknown}'.`);
    return { only, strict, allowed, help };
  } catch (error) {
    throw new Problem(`${/** @type {Error} */ (error).message}\n\n${USAGE}`);
  }
}

/**
 * Run a part that tells by its exit status whether it passed, and by a `Problem` why it cannot be run here.
 * @param {Part} name
 * @param {() => Promise<number>} work
 * @returns {Promise<Outcome>}
 */
async function attempt(name, work) {
  title(PARTS[name]);
  const start = Date.now();
  try {
    const result = (await work()) === 0 ? 'passed' : 'failed';
    return { name, result, note: span(Date.now() - start) };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { name, result: 'not run', note: error.message };
  }
}

function client() {
  return attempt('client', async () => {
    const statuses = [await npmScript('check'), await npmScript('test:client')];
    return Math.max(...statuses);
  });
}

/** @param {string} name */
function npmScript(name) {
  const script = process.env.npm_execpath; // set where npm runs this
  if (script) return runLive(process.execPath, [script, 'run', name]);
  return runLive('npm', ['run', name], { shell: process.platform === 'win32' });
}

async function packaged() {
  try {
    await ensurePackage();
    return 0;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    console.error(error.message); // nothing it needs can be missing here, so this is a failure
    return 1;
  }
}

async function editor() {
  const { findChromium } = await import('./tools/chromium.mjs'); // it needs the packages of node_modules
  const { executablePath } = await findChromium();
  await ensureCodeServer(findPython().path);
  await ensurePackage();
  console.log(`The browser is ${executablePath}\n`);
  const folder = path.join('tests', 'editor');
  const files = fs.readdirSync(path.join(ROOT, folder)).filter((name) => name.endsWith('.test.mjs'));
  const paths = files.sort().map((name) => path.join(folder, name));
  // One after the other: each has a whole VS Code of its own.
  return runLive(process.execPath, ['--test', '--test-concurrency=1', '--test-reporter=spec', ...paths]);
}

/**
 * Run sessions of noxfile.py.
 * @param {Part[]} sessions
 * @returns {Promise<Outcome[]>} one outcome a session; smoke is several
 */
async function python(sessions) {
  title(sessions.map((name) => PARTS[name]).join('; '));
  const reports = path.join(ROOT, 'build', 'reports');
  fs.rmSync(reports, { recursive: true, force: true });
  fs.mkdirSync(reports, { recursive: true });
  const report = path.join(reports, 'nox.json');
  const results = path.join(reports, 'pytest.xml');
  // nox looks for other versions of Python on the PATH, where pyenv has shims that work for some of them only.
  const folders = [PYTHON, ...findPythons().map((found) => found.path)].map((file) => path.dirname(file));
  const env = { ...process.env, PATH: [...folders, process.env.PATH].join(path.delimiter) };
  const nox = ['-m', 'nox', '--reuse-venv', 'yes', '--report', report, '--session', ...sessions];
  await runLive(PYTHON, [...nox, '--', `--junitxml=${results}`], { env });
  if (!fs.existsSync(report)) return [{ name: 'nox', result: 'failed', note: 'it ended before it ran anything' }];
  /** @type {{ sessions: Session[] }} */
  const { sessions: ran } = JSON.parse(fs.readFileSync(report, 'utf8'));
  const outcomes = ran.map(sessionOutcome);
  return fs.existsSync(results) ? [...outcomes, ...skipped(fs.readFileSync(results, 'utf8'))] : outcomes;
}

/**
 * @typedef {object} Session as nox reports it
 * @property {string[]} signatures its names
 * @property {string} result
 * @property {number} duration in seconds
 */

/**
 * @param {Session} session
 * @returns {Outcome}
 */
function sessionOutcome({ signatures: [name = ''], result, duration }) {
  if (result === 'success') return { name, result: 'passed', note: span(duration * 1000) };
  if (result !== 'skipped') return { name, result: 'failed', note: span(duration * 1000) };
  const version = name.replace('smoke-', '');
  return { name, result: 'not run', note: `there is no Python ${version} on this machine: pyenv install ${version}` };
}

/**
 * @param {string} results of pytest, as JUnit writes them
 * @returns {Outcome[]} one for each reason to skip tests
 */
function skipped(results) {
  /** @type {Map<string, string[]>} */
  const tests = new Map();
  for (const [, name = '', reason = ''] of results.matchAll(/ name="([^"]*)"[^>]*><skipped [^>]*message="([^"]*)"/g)) {
    tests.set(reason, [...(tests.get(reason) ?? []), name]);
  }
  return [...tests].map(([reason, names]) => {
    const words = reason
      .replaceAll('&quot;', '"')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&amp;', '&');
    return { name: words, result: 'not run', note: names.join(', ') };
  });
}

/** @param {string} text */
function title(text) {
  console.log(`\n── ${text} ${'─'.repeat(Math.max(0, 116 - text.length))}\n`);
}

/**
 * Say what came out.
 * @param {Outcome[]} outcomes
 * @param {Options} options
 * @returns {number} the exit status
 */
function summary(outcomes, { strict, allowed }) {
  title('summary');
  const width = Math.max(...outcomes.map(({ name }) => name.length));
  for (const { name, result, note } of outcomes) {
    console.log(`  ${name.padEnd(width)}  ${result.padEnd(7)}  ${note ?? ''}`.trimEnd());
  }
  const failed = outcomes.filter(({ result }) => result === 'failed');
  const missing = outcomes.filter(({ name, result }) => result === 'not run' && !allowed.includes(name));
  console.log();
  if (failed.length) console.log(`Failed: ${failed.map(({ name }) => name).join(', ')}`);
  else if (strict && missing.length)
    console.log(`Not run, and --strict: ${missing.map(({ name }) => name).join(', ')}`);
  else console.log('Nothing failed.');
  return failed.length || (strict && missing.length) ? 1 : 0;
}
