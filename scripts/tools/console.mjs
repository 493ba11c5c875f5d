// @ts-check
// What the scripts say while they work, and how they run other programs. Node's own modules only.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the checkout. */
export const ROOT = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));

/** Something that the user has to know or do; its message is all that is shown. */
export class Problem extends Error {}

/** What npm, pip and their libraries say where a package index is not reached. */
const OFFLINE =
  /ECONNREFUSED|ECONNRESET|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|NewConnectionError|ConnectTimeout|No matching distr/;
const ONLINE =
  'This needs the network, and npm or PyPI was not reached. Look at the connection and at the proxy settings of npm and ' +
  'pip, then run the same again: what is done already is kept.';

const interactive = Boolean(process.stdout.isTTY);

/**
 * Say a time span as people read it.
 * @param {number} milliseconds
 */
export function span(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  return `${minutes} min ${Math.round(seconds) % 60} s`;
}

/**
 * Do one step of a longer job and say what it is, how long it takes, and how long it took.
 * @template T
 * @param {string} title
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(title, work) {
  const start = Date.now();
  const since = () => span(Date.now() - start);
  const show = () => process.stdout.write(`\r\x1b[K… ${title} (${since()})`);
  if (interactive) show();
  else console.log(`… ${title}`);
  const ticking = interactive ? setInterval(show, 1000) : undefined;
  let done = false;
  try {
    const value = await work();
    done = true;
    return value;
  } finally {
    clearInterval(ticking);
    console.log(`${interactive ? '\r\x1b[K' : ''}${done ? '✓' : '✗'} ${title} (${since()})`);
  }
}

/**
 * Say that a step is not needed.
 * @param {string} title
 */
export function already(title) {
  console.log(`✓ ${title}`);
}

/**
 * @typedef {object} RunOptions
 * @property {string} [cwd] the folder to run in; the root of the checkout by default
 * @property {NodeJS.ProcessEnv} [env]
 * @property {boolean} [shell] whether the command is a script that Windows runs by its shell only
 */

/**
 * Run a program quietly.
 * @param {string} command
 * @param {string[]} args
 * @param {RunOptions & { log?: string }} [options] `log`: a file that its output is added to
 * @returns {Promise<string>} its standard output
 * @throws {Problem} with the end of its output, if it fails
 */
export async function run(command, args, { log, ...options } = {}) {
  let output = '';
  let everything = '';
  const child = spawn(command, args, { cwd: ROOT, ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
    everything += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    everything += text;
  });
  const status = await ended(child, command);
  if (log) {
    fs.mkdirSync(path.dirname(log), { recursive: true });
    fs.appendFileSync(log, `$ ${[command, ...args].join(' ')}\n${everything}\n`);
  }
  if (status !== 0) {
    const last = everything.trimEnd().split('\n').slice(-25).join('\n');
    const where = log ? `\nAll of it is in ${log}` : '';
    const way = OFFLINE.test(everything) ? `\n\n${ONLINE}` : '';
    throw new Problem(`This failed: ${[command, ...args].join(' ')}\n${last}${where}${way}`);
  }
  return output;
}

/**
 * Run a program that talks to the user itself.
 * @param {string} command
 * @param {string[]} args
 * @param {RunOptions} [options]
 * @returns {Promise<number>} its exit status
 */
export function runLive(command, args, options = {}) {
  return ended(spawn(command, args, { cwd: ROOT, ...options, stdio: 'inherit' }), command);
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {string} command
 * @returns {Promise<number>}
 */
function ended(child, command) {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new Problem(`${command} could not be started: ${error.message}`)));
    child.once('close', (status) => resolve(status ?? 1));
  });
}

/**
 * Find a program as the shell would.
 * @param {string} name
 * @returns {string | undefined} its path
 */
export function findProgram(name) {
  const endings = process.platform === 'win32' ? (process.env.PATHEXT ?? '.EXE;.CMD').split(';') : [''];
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    for (const ending of endings) {
      const file = path.join(folder, name + ending);
      if (folder && isProgram(file)) return file;
    }
  }
  return undefined;
}

/** @param {string} file */
function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/**
 * Run a script's `main` and end as it says: a `Problem` is told in its own words, with exit status 1.
 * @param {() => Promise<number>} main gives the exit status
 */
export async function runScript(main) {
  try {
    process.exitCode = await main();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    console.error(`\n${error.message}`);
    process.exitCode = 1;
  }
}
