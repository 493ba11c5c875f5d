// Which Python runs the server: the setting's, else the first that can of the Python extension's and those on PATH.
// Knows nothing of VS Code.
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { setTimeout as after } from 'node:timers/promises';

const OLDEST = 10;
const QUESTION = `import importlib.machinery, importlib.util, json, sys
print(json.dumps({"version": sys.version_info[:3], "executable": sys.executable,
  "endings": importlib.machinery.EXTENSION_SUFFIXES, "installed": bool(importlib.util.find_spec("torchstray"))}))`;

export interface Search {
  /** The user's `torchstray.interpreter`; empty where it is not set. */
  setting: string;
  /** Asks for the Python of the environment that is active in the Python extension. */
  environment: () => Promise<string | undefined>;
  /** What a relative path in the setting counts from. */
  workspaceFolder?: string;
  /** Folders from which nothing may be run. */
  untrusted: readonly string[];
  /** The folder of the bundled server, or nothing where torchstray has to be installed in the environment. */
  bundle?: string;
  /** The working folder of each Python: one in which no file can take a module's place. */
  cwd: string;
  searchPath: string;
  /** How long (ms) each that is asked may take to answer. */
  limit: number;
  log: (line: string) => void;
}

/** A Python that can run the server; `origin` says in words where it comes from. */
export type Interpreter = { path: string; version: string; origin: string };
type Candidate = { command: string[]; origin: string };
type Answer = { version: [number, number, number]; executable: string; endings: string[]; installed: boolean };

/** Return the first Python of the chain that can run the server, and throw where none can: the message says why. */
export async function findInterpreter(search: Search): Promise<Interpreter> {
  const refused: string[] = [];
  for await (const candidate of candidates(search)) {
    const found = await validate(candidate, search);
    const said = `${candidate.command.join(' ')} ${typeof found === 'string' ? found : 'is used'}`;
    search.log(`Python from ${candidate.origin}: ${said}`);
    if (typeof found !== 'string') return found;
    refused.push(said);
  }
  if (search.setting) throw new Error(`the setting torchstray.interpreter does not work: ${refused[0]}.`);
  if (refused.length > 0) throw new Error(`no Python that can run it was found: ${refused.join('; ')}.`);
  throw new Error(`no Python was found, and ${needed(search)} is needed.`);
}

async function* candidates(search: Search): AsyncGenerator<Candidate> {
  if (search.setting) {
    yield { origin: 'the setting torchstray.interpreter', command: [expand(search)] };
    return; // one that does not work is not passed over
  }
  search.log('Python from the setting torchstray.interpreter: not set');
  const late = after(search.limit, undefined, { ref: false });
  const environment = await Promise.race([search.environment(), late]).catch((error) => void search.log(String(error)));
  if (environment) yield { origin: 'the Python extension', command: [environment] };
  else search.log('Python from the Python extension: none');
  const names = [['python3'], ['python'], ...(process.platform === 'win32' ? [['py', '-3']] : [])];
  names.push(...minors(search).map((minor) => [`python3.${minor}`]));
  for (const [name = '', ...args] of names) {
    const file = onPath(name, search);
    if (file) yield { origin: 'PATH', command: [file, ...args] };
    else search.log(`Python from PATH: there is no ${name}`);
  }
}

/** The endings of the bundle's compiled parts, such as `.cpython-311-x86_64-linux-gnu.so`: one for each Python. */
function compiledParts({ bundle }: Search): string[] {
  const names = bundle === undefined ? [] : fs.readdirSync(path.join(bundle, 'libcst'));
  return names.filter((name) => /^native\..*(so|pyd)$/.test(name)).map((name) => name.slice('native'.length));
}

/** The minor versions of Python 3 that the bundle is made for, the newest first. */
function minors(search: Search): number[] {
  const found = compiledParts(search).map((ending) => Number(/^\.cp(?:ython-)?3(\d+)/.exec(ending)?.[1]));
  return [...new Set(found)].sort((one, other) => other - one);
}

function needed(search: Search): string {
  const made = minors(search);
  return made.length > 0 ? `Python 3.${made.at(-1)} to 3.${made[0]}` : `Python 3.${OLDEST} or newer`;
}

/** The file that the setting names: a path, which may start with `~` or `${workspaceFolder}`, or a name on PATH. */
function expand(search: Search): string {
  const base = search.workspaceFolder ?? os.homedir();
  const file = search.setting.replace(/^~(?=[\\/])/, () => os.homedir()).replace(/^\$\{workspaceFolder\}/, () => base);
  return /[\\/]/.test(file) ? path.resolve(base, file) : (onPath(file, search) ?? file);
}

function onPath(name: string, search: Search): string | undefined {
  const file = process.platform === 'win32' && !/\.exe$/i.test(name) ? `${name}.exe` : name;
  // What a relative entry means depends on the working folder.
  const folders = search.searchPath.split(path.delimiter).filter(path.isAbsolute);
  return folders.map((folder) => path.join(folder, file)).find((found) => obstacle(found, search) === undefined);
}

/** Why a file may not be run, or nothing. */
function obstacle(file: string, search: Search): string | undefined {
  try {
    if (fs.statSync(file).isDirectory()) return 'is a folder, not a Python';
    fs.accessSync(file, fs.constants.X_OK);
  } catch {
    return fs.existsSync(file) ? 'may not be run: it is not executable' : 'does not exist';
  }
  const places = [path.dirname(file), fs.realpathSync(path.dirname(file))];
  const ways = search.untrusted.flatMap((folder) => places.map((place) => path.relative(folder, place)));
  const isBelow = ways.some((way) => !path.isAbsolute(way) && way.split(path.sep)[0] !== '..');
  return isBelow ? 'lies in this workspace, which is not trusted' : undefined;
}

/** Ask a Python what it is; return it, or in words why it cannot run the server. */
async function validate({ command, origin }: Candidate, search: Search): Promise<Interpreter | string> {
  const [file = '', ...args] = command;
  const reason = path.isAbsolute(file) ? obstacle(file, search) : 'is not on PATH';
  if (reason) return reason;
  const answer = await ask(file, search.bundle === undefined ? args : [...args, '-I', '-S'], search);
  if (typeof answer === 'string') return answer;
  const [major, minor] = answer.version;
  const version = answer.version.join('.');
  const isMade = search.bundle === undefined || minors(search).includes(minor);
  if (major !== 3 || minor < OLDEST || !isMade) return `is Python ${version}, and ${needed(search)} is needed`;
  if (search.bundle === undefined) {
    if (!answer.installed) return `has no torchstray: install it there, or set torchstray.importStrategy to useBundled`;
  } else if (!compiledParts(search).some((ending) => answer.endings.includes(ending))) {
    return `is a build of Python (${answer.endings[0]}) that this package of torchstray is not made for`;
  }
  // The program behind a launcher or shim, which may choose another one next time. A wrapper's is out of reach.
  const isReachable = path.isAbsolute(answer.executable) && obstacle(answer.executable, search) === undefined;
  return { path: isReachable ? answer.executable : file, version, origin };
}

/** Run a Python; return its answer, or in words what went wrong. */
function ask(file: string, args: string[], { cwd, limit }: Search): Promise<Answer | string> {
  return new Promise((resolve) => {
    const options = { cwd, timeout: limit, killSignal: 'SIGKILL', windowsHide: true } as const;
    execFile(file, [...args, '-c', QUESTION], options, (error, stdout, stderr) => {
      if (error?.killed) return resolve(`did not answer within ${limit / 1000} seconds`);
      if (/Unknown option: -I/.test(stderr)) return resolve('is Python 2, which is too old');
      if (error) return resolve(`does not work: ${lastLine(stderr) || error.message}`);
      try {
        const answer = JSON.parse(lastLine(stdout)); // what an environment prints at its start stands before it
        if (!Array.isArray(answer.version)) throw new Error('of another program');
        resolve(answer);
      } catch {
        resolve(`is not a Python: it says "${lastLine(stdout).slice(0, 80)}"`);
      }
    });
  });
}

/** The last line of what a program has said. */
export const lastLine = (text: string) => text.trim().split('\n').at(-1) ?? '';
