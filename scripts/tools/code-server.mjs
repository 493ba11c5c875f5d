// @ts-check
// VS Code in the browser: code-server, from npm, set up below .tools and run on a loopback port.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { already, findProgram, Problem, ROOT, run, step } from './console.mjs';
import { thisTarget } from './extension.mjs';

const VERSION = '4.139.1';
/** code-server runs on this major version of Node only; the npm package has its C headers too. */
const NODE_VERSION = '24.22.3';
const HOME = path.join(ROOT, '.tools', `code-server-${VERSION}`);
const ENTRY = path.join('node_modules', 'code-server', 'out', 'node', 'entry.js');
/** Those of VS Code's native modules that the server does not start without, and that come as source only. */
const COMPILED = ['@vscode/spdlog', '@vscode/native-watchdog'];
const START_LIMIT = 60_000;
/** Stands between the name of what is being made and the id of the process that makes it. */
const PARTIAL = '.partial-';

/** Why code-server cannot be had on this machine, or `undefined`. */
export function codeServerObstacle() {
  if (!['linux-x64', 'linux-arm64'].includes(thisTarget())) {
    return 'VS Code in the browser can be set up on Linux only (x64 or arm64, with glibc).';
  }
  if (fs.existsSync(HOME)) return undefined;
  if (!['make', 'c++'].every(findProgram)) {
    return 'VS Code in the browser needs a C++ compiler and make to be set up: sudo apt-get install -y g++ make';
  }
  return undefined;
}

/**
 * Set code-server up, unless it is there. It is made in a folder of its own and renamed at the end, so that a run that was
 * interrupted leaves nothing half made; the next one has what npm has downloaded already.
 * @param {string} python a Python 3 for node-gyp
 * @throws {Problem} if it cannot be had here
 */
export async function ensureCodeServer(python) {
  const obstacle = codeServerObstacle();
  if (obstacle) throw new Problem(obstacle);
  removeAbandoned();
  if (fs.existsSync(HOME)) {
    already(`VS Code in the browser (code-server ${VERSION}): up to date`);
    return;
  }
  console.log(`VS Code in the browser (code-server ${VERSION}, 850 MB) is set up once, in two to five minutes:`);
  const partial = `${HOME}${PARTIAL}${process.pid}`;
  const log = path.join(ROOT, '.tools', 'code-server.log');
  fs.rmSync(log, { force: true });
  fs.rmSync(partial, { recursive: true, force: true });
  fs.mkdirSync(partial, { recursive: true });
  fs.writeFileSync(path.join(partial, 'package.json'), '{ "private": true }\n');
  const node = path.join(partial, 'node_modules', `node-linux-${process.arch}`);
  const vscode = path.join(partial, 'node_modules', 'code-server', 'lib', 'vscode');
  /** @type {(cwd: string, args: string[], env?: NodeJS.ProcessEnv) => Promise<string>} */
  const npm = (cwd, args, env = {}) =>
    run('npm', [...args, '--no-audit', '--no-fund', '--no-update-notifier'], {
      cwd,
      log,
      env: {
        ...process.env,
        PATH: `${path.join(node, 'bin')}${path.delimiter}${process.env.PATH}`,
        npm_config_python: python,
        ...env,
      },
    });
  // Its install scripts would compile every native module, in ten minutes and with more libraries than most have.
  const quick = ['--ignore-scripts', '--omit=dev'];
  await step('  1 of 4: Node and code-server', () =>
    npm(partial, ['install', ...quick, `node-linux-${process.arch}@${NODE_VERSION}`, `code-server@${VERSION}`]),
  );
  await step('  2 of 4: what VS Code needs', () => npm(vscode, ['install', ...quick]));
  await step('  3 of 4: what its extensions need', () => npm(path.join(vscode, 'extensions'), ['install', ...quick]));
  await step('  4 of 4: compiling its native modules', async () => {
    // node-gyp would download Node's headers, which lie in its package; and it cannot read them where a path has spaces.
    const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'torchstray-'));
    const headers = path.join(scratch, 'node');
    fs.symlinkSync(node, headers);
    try {
      await npm(vscode, ['rebuild', '--foreground-scripts', ...COMPILED], { npm_config_nodedir: headers });
    } finally {
      fs.rmSync(scratch, { recursive: true });
    }
  });
  fs.renameSync(partial, HOME);
}

/** Remove the folders of earlier runs that were interrupted. */
function removeAbandoned() {
  const tools = path.dirname(HOME);
  for (const name of fs.existsSync(tools) ? fs.readdirSync(tools) : []) {
    const [, maker] = name.split(PARTIAL);
    if (maker && !signal(Number(maker), 0)) fs.rmSync(path.join(tools, name), { recursive: true, force: true });
  }
}

/** A code-server with data, settings and extensions of its own, on a port that only this machine reaches. */
export class CodeServer {
  #log = '';
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #process;
  #home;
  #scratch = '';

  /** @param {string} home the folder for its data; made if it is missing */
  constructor(home) {
    this.#home = home;
    /** Where it listens, once it is started. */
    this.address = '';
    for (const folder of ['data/User', 'data/Machine', 'extensions']) {
      fs.mkdirSync(path.join(home, folder), { recursive: true });
    }
    // Whoever can open the page can run programs as this user, and every user of the machine can reach the port.
    const file = path.join(home, 'password');
    if (!fs.existsSync(file)) fs.writeFileSync(file, randomBytes(12).toString('hex'), { mode: 0o600 });
    this.password = fs.readFileSync(file, 'utf8');
  }

  /** The file that lists the extensions installed in it. */
  get extensionsList() {
    return path.join(this.#home, 'extensions', 'extensions.json');
  }

  /** @param {'User' | 'Machine'} scope a setting of scope machine or machine-overridable counts in Machine only */
  settingsFile(scope) {
    return path.join(this.#home, 'data', scope, 'settings.json');
  }

  /**
   * @param {'User' | 'Machine'} scope
   * @param {Record<string, unknown>} values
   */
  writeSettings(scope, values) {
    fs.writeFileSync(this.settingsFile(scope), `${JSON.stringify(values, null, 2)}\n`);
  }

  /** @param {string} vsix */
  async install(vsix) {
    const args = [...this.#arguments(), '--install-extension', vsix, '--force'];
    await run(this.#node, args, { env: this.#environment() });
  }

  /**
   * Start it; the address then shows the folder.
   * @param {string} folder
   * @returns {Promise<void>} when it listens
   * @throws {Problem} with what it said, if it ends or takes more than a minute
   */
  async start(folder) {
    this.#scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'torchstray-'));
    const words = path.join(this.#scratch, 'words.json');
    fs.writeFileSync(
      words,
      JSON.stringify({ LOGIN_USING_ENV_PASSWORD: 'The password is in the terminal, below the address.' }),
    );
    const flags = [
      ...['--auth', 'password', '--bind-addr', '127.0.0.1:0'],
      // The default, below the data folder, can be longer than a socket's path may be.
      ...['--session-socket', path.join(this.#scratch, 'session.sock')],
      ...['--disable-telemetry', '--disable-update-check', '--disable-getting-started-override'],
      ...['--app-name', 'VS Code', '--i18n', words, '--ignore-last-opened', folder],
    ];
    const child = spawn(this.#node, [...this.#arguments(), ...flags], {
      env: { ...this.#environment(), PASSWORD: this.password },
      detached: true, // a process group, so that all that it starts can be ended with it
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#process = child;
    const group = child.pid;
    if (group !== undefined) process.once('exit', () => signal(-group, 'SIGKILL'));
    this.address = await new Promise((resolve, reject) => {
      /** @param {string} reason */
      const fail = (reason) => reject(new Problem(`VS Code in the browser ${reason}:\n${this.#log}`));
      const late = setTimeout(() => fail('did not start within a minute'), START_LIMIT);
      child.once('error', (error) => fail(`could not be started (${error.message})`));
      child.once('exit', () => fail('ended while it started'));
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', (text) => {
          this.#log += text;
          const listening = /HTTP server listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(this.#log);
          if (!listening?.[1]) return;
          clearTimeout(late);
          resolve(listening[1]);
        });
      }
    });
  }

  /** @returns {Promise<void>} when it has ended, by itself or by `stop` */
  ended() {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
    return new Promise((resolve) => child.once('exit', () => resolve()));
  }

  /** End it, and all that it started. */
  async stop() {
    const group = this.#process?.pid;
    if (group === undefined) return;
    const end = this.ended();
    signal(-group, 'SIGTERM');
    const late = setTimeout(() => signal(-group, 'SIGKILL'), 5000);
    await end;
    clearTimeout(late);
    signal(-group, 'SIGKILL'); // what outlived it
    fs.rmSync(this.#scratch, { recursive: true, force: true });
  }

  get #node() {
    return path.join(HOME, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node');
  }

  #arguments() {
    const config = path.join(this.#home, 'config.yaml');
    fs.writeFileSync(config, '{}\n'); // else the user's own would be read, or made
    const folders = [
      '--user-data-dir',
      path.join(this.#home, 'data'),
      '--extensions-dir',
      path.join(this.#home, 'extensions'),
    ];
    return [path.join(HOME, ENTRY), '--config', config, ...folders];
  }

  /** The user's environment, less what an editor around it has set. */
  #environment() {
    const kept = Object.entries(process.env).filter(
      ([name]) => !/^(VSCODE_|CODE_SERVER_|ELECTRON_|npm_|PORT$)/.test(name),
    );
    return { ...Object.fromEntries(kept), XDG_DATA_HOME: path.join(this.#home, 'share') };
  }
}

/**
 * Send a signal to a process, or to a process group (a negative id).
 * @param {number} id
 * @param {NodeJS.Signals | 0} name
 * @returns {boolean} whether it is still there
 */
function signal(id, name) {
  try {
    return process.kill(id, name);
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH';
  }
}
