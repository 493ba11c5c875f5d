// @ts-check
// Finding Python, and the environment in .venv.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { findProgram, Problem, ROOT, run } from './console.mjs';
import { ensure } from './stamps.mjs';

/** Best first. The tests' torch is a small build for CPUs on 3.11, and several gigabytes on others. */
const PREFERRED = ['3.11', '3.12', '3.13', '3.14', '3.10'];

/** How long (ms) a Python may take to say what it is. */
const ANSWER_LIMIT = 10_000;

const HOW_TO_GET = {
  linux:
    'sudo apt-get install -y python3 python3-venv, or where that is an older one, https://www.python.org/downloads',
  darwin: 'brew install python@3.13',
  win32: 'winget install Python.Python.3.13',
};

/**
 * @typedef {object} Python
 * @property {string} version such as 3.11
 * @property {string} path of the program
 * @property {boolean} complete whether it can make environments; Debian has that in a package of its own
 */

/** @returns {Python[]} those of a supported version on this machine, best first, one of each version */
export function findPythons() {
  /** @type {Map<string, Python>} */
  const found = new Map();
  for (const program of candidates()) {
    const python = inspect(program);
    if (python && PREFERRED.includes(python.version) && !found.get(python.version)?.complete) {
      found.set(python.version, python);
    }
  }
  return PREFERRED.flatMap((version) => found.get(version) ?? []);
}

/**
 * @returns {Python} the best one on this machine
 * @throws {Problem} if there is none that can make environments
 */
export function findPython() {
  const pythons = findPythons();
  const best = pythons.find((python) => python.complete);
  if (best) return best;
  const [incomplete] = pythons;
  if (incomplete) {
    const way = `sudo apt-get install -y python${incomplete.version}-venv`;
    throw new Problem(`${incomplete.path} cannot make virtual environments: ${way}`);
  }
  const way = HOW_TO_GET[/** @type {keyof typeof HOW_TO_GET} */ (process.platform)] ?? HOW_TO_GET.linux;
  const others = candidates().flatMap((program) => inspect(program) ?? []);
  const named = [...new Set(others.map((python) => `${python.version} (${python.path})`))].join(', ');
  const there = named ? `there is only ${named} on this machine` : 'there is none on this machine';
  throw new Problem(`torchstray needs Python 3.10 to 3.14, and ${there}: ${way}`);
}

/** Where a Python may be: on the PATH, and where pyenv keeps those that are not. */
function candidates() {
  const onPath = [...PREFERRED.map((version) => `python${version}`), 'python3', 'python'].map(findProgram);
  const pyenv = path.join(process.env.PYENV_ROOT ?? path.join(os.homedir(), '.pyenv'), 'versions');
  const kept = fs.existsSync(pyenv) ? fs.readdirSync(pyenv).sort().reverse() : [];
  return [...onPath, ...kept.map((version) => path.join(pyenv, version, 'bin', 'python'))].filter(
    (file) => file !== undefined,
  );
}

/**
 * @param {string} program
 * @returns {Python | undefined} nothing if it does not run or answer, as a shim of a version that is not switched on
 */
function inspect(program) {
  const script = [
    'import importlib.util as i, json, sys',
    'complete = all(map(i.find_spec, ["venv", "ensurepip"]))',
    'print(json.dumps({"version": "%d.%d" % sys.version_info[:2], "path": sys.executable, "complete": complete}))',
  ].join('\n');
  const done = spawnSync(program, ['-c', script], { encoding: 'utf8', timeout: ANSWER_LIMIT });
  try {
    return done.status === 0 ? JSON.parse(done.stdout) : undefined;
  } catch {
    return undefined;
  }
}

/** The Python of .venv. */
export const PYTHON = path.join(
  ROOT,
  '.venv',
  ...(process.platform === 'win32' ? ['Scripts', 'python.exe'] : ['bin', 'python']),
);

/**
 * Look for what `ensureEnvironment` needs, before anything takes time.
 * @throws {Problem} if it is not there
 */
export function checkPython() {
  if (!isEnvironment()) findPython();
}

function isEnvironment() {
  return fs.existsSync(PYTHON) && inspect(PYTHON) !== undefined;
}

/** Make .venv, with torchstray as it is in this checkout and what runs its checks. */
export async function ensureEnvironment() {
  const base = isEnvironment() ? undefined : findPython();
  await ensure(
    {
      name: 'venv',
      title: base ? `Python environment in .venv (Python ${base.version})` : 'Python environment in .venv',
      inputs: ['pyproject.toml'],
      facts: [ROOT], // a folder that was moved has another path in it
      output: () => PYTHON,
    },
    async () => {
      if (base) await run(base.path, ['-m', 'venv', '--clear', path.join(ROOT, '.venv')]);
      const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
      await run(PYTHON, [...install, '--upgrade', 'pip>=25.1']); // earlier ones know no groups
      await run(PYTHON, [...install, '--editable', '.', '--group', 'nox']);
    },
  );
}
