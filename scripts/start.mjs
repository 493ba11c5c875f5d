// @ts-check
// npm start: set everything up, and open the samples in VS Code with the extension running.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { CodeServer, codeServerObstacle, ensureCodeServer } from './tools/code-server.mjs';
import { findProgram, Problem, ROOT, runLive, runScript } from './tools/console.mjs';
import { ensureExtension, ensurePackage } from './tools/extension.mjs';
import { checkNode, ensureNodePackages } from './tools/node.mjs';
import { checkPython, ensureEnvironment, findPython, PYTHON } from './tools/python.mjs';
import { CALM_SETTINGS } from './tools/settings.mjs';
import { ensure } from './tools/stamps.mjs';

const USAGE = `npm start [-- OPTIONS]

Sets everything up, says what torchstray finds in samples/, and opens a copy of that folder in VS Code with the extension running:
in the VS Code of this machine, with data of its own, or, on Linux without one, in the browser.

  --browser   open it in the browser even if VS Code is on this machine
  --no-open   open nothing: say how to
  --help      show this`;

/** A copy of samples/ is opened, so that they can be repaired again and again. */
const SAMPLES = path.join(ROOT, 'build', 'samples');
const FIRST = 'layer_stack.py';
/** The data of the editor that is opened, whose settings are written each time; the user's own is not touched. */
const EDITOR = path.join(ROOT, '.tools', 'editor');

await runScript(async () => {
  checkNode();
  const options = readOptions();
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const code = options.browser ? undefined : findCode();
  if (!code) checkBrowserIsPossible(options.browser);
  checkPython();
  await ensureNodePackages();
  await ensureEnvironment();
  await ensureExtension();
  console.log('\n$ torchstray check samples\n');
  const status = await runLive(PYTHON, ['-m', 'torchstray', 'check', 'samples']);
  if (status > 1) throw new Problem('torchstray could not check the samples; it says why above.');
  fs.cpSync(path.join(ROOT, 'samples'), SAMPLES, { recursive: true });
  console.log(`\nThe editor gets a copy of them, ${path.relative(ROOT, SAMPLES)}, made anew at each start.\n`);
  return code ? openCode(code, options.open) : openBrowser(options.open);
});

function readOptions() {
  try {
    const { values } = parseArgs({
      options: { browser: { type: 'boolean' }, 'no-open': { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    });
    const { browser = false, 'no-open': closed = false, help = false } = values;
    return { browser, open: !closed, help };
  } catch (error) {
    throw new Problem(`${/** @type {Error} */ (error).message}\n\n${USAGE}`);
  }
}

/** @returns {string | undefined} VS Code's command; not the one of a remote window, which opens folders there and nothing else */
function findCode() {
  const remote = process.env.VSCODE_IPC_HOOK_CLI ?? process.env.WSL_DISTRO_NAME;
  return remote === undefined ? findProgram('code') : undefined;
}

/** @param {boolean} asked */
function checkBrowserIsPossible(asked) {
  const obstacle = codeServerObstacle();
  if (!obstacle) return;
  if (asked || process.platform === 'linux') throw new Problem(obstacle);
  const palette =
    process.platform === 'darwin' ? ', and run "Shell Command: Install \'code\' command in PATH" in it' : '';
  throw new Problem(
    `VS Code was not found. Install it from https://code.visualstudio.com${palette}; then npm start again.`,
  );
}

/**
 * Open the samples in the VS Code of this machine, as a development host: nothing is installed into the user's own.
 * @param {string} code
 * @param {boolean} open
 */
async function openCode(code, open) {
  const data = path.join(EDITOR, 'desktop');
  const settings = { ...CALM_SETTINGS, 'torchstray.interpreter': PYTHON };
  fs.mkdirSync(path.join(data, 'User'), { recursive: true });
  fs.writeFileSync(path.join(data, 'User', 'settings.json'), `${JSON.stringify(settings, null, 2)}\n`);
  const args = [
    `--extensionDevelopmentPath=${ROOT}`,
    `--user-data-dir=${data}`,
    `--extensions-dir=${path.join(EDITOR, 'desktop-extensions')}`,
    '--new-window',
    SAMPLES,
    path.join(SAMPLES, FIRST),
  ];
  const quoted = args.map((arg) => `"${arg}"`);
  if (!open) {
    console.log(`This opens the samples in VS Code:\n  ${[`"${code}"`, ...quoted].join(' ')}`);
    return 0;
  }
  console.log(
    `VS Code opens the samples. Click on what is underlined in ${FIRST}, then press Ctrl+. (Cmd+. on a Mac).`,
  );
  const windows = process.platform === 'win32'; // where code is a script, which only the shell runs
  return runLive(windows ? `"${code}"` : code, windows ? quoted : args, { env: outsideOfEditors(), shell: windows });
}

/**
 * Open the samples in VS Code in the browser, until Ctrl-C.
 * @param {boolean} open
 */
async function openBrowser(open) {
  await ensureCodeServer(findPython().path);
  const vsix = await ensurePackage();
  const server = new CodeServer(path.join(EDITOR, 'browser'));
  await ensure(
    {
      name: 'browser-extension',
      title: 'The extension in it',
      inputs: [path.relative(ROOT, vsix)],
      output: () => server.extensionsList,
    },
    () => server.install(vsix),
  );
  server.writeSettings('User', CALM_SETTINGS);
  server.writeSettings('Machine', { 'torchstray.interpreter': PYTHON });
  await server.start(SAMPLES);
  for (const name of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.once(name, () => server.stop());
  console.log(`
VS Code runs, with the samples and the extension:

  address:  ${server.address}
  password: ${server.password}

Only this machine reaches the address. The password is there since everybody who uses this machine reaches it, and whoever
opens the page can run programs as you. Open ${FIRST}, click on what is underlined, and press Ctrl+. there.
Ctrl-C here ends it.`);
  if (open) openPage(server.address);
  await server.ended();
  return 0;
}

/**
 * Show a page in the user's browser, if there is a desktop to show it on.
 * @param {string} address
 */
function openPage(address) {
  const opener = findProgram('xdg-open');
  if (!opener || !(process.env.DISPLAY ?? process.env.WAYLAND_DISPLAY)) return;
  spawn(opener, [address], { stdio: 'ignore', detached: true }).unref();
}

/** The environment without what an editor sets for the programs in its terminal: it would open the window in itself. */
function outsideOfEditors() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(VSCODE|ELECTRON)_/.test(name)));
}
