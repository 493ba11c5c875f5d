// @ts-check
// The Node that runs this, and the packages in node_modules.
import fs from 'node:fs';
import path from 'node:path';
import { already, Problem, ROOT, run, step } from './console.mjs';

const OLDEST = 20;

/** @throws {Problem} if Node is too old */
export function checkNode() {
  if (Number.parseInt(process.versions.node, 10) >= OLDEST) return;
  throw new Problem(
    `torchstray needs Node ${OLDEST} or newer, and this is ${process.version}: https://nodejs.org/en/download`,
  );
}

/** Run `npm ci`, unless node_modules is what package-lock.json says. */
export async function ensureNodePackages() {
  const lock = path.join(ROOT, 'package-lock.json');
  const installed = path.join(ROOT, 'node_modules', '.package-lock.json'); // npm writes it last
  if (fs.existsSync(installed) && fs.statSync(installed).mtimeMs >= fs.statSync(lock).mtimeMs) {
    already('Node packages: up to date');
    return;
  }
  await step('Node packages (npm ci)', () => npm(['ci']));
}

/** @param {string[]} args */
function npm(args) {
  const script = process.env.npm_execpath; // set where npm runs this
  if (script) return run(process.execPath, [script, ...args]);
  return run('npm', args, { shell: process.platform === 'win32' });
}
