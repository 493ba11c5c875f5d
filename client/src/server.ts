// The life of the server: a Python is found for it, it is started, watched, and started again.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as path from 'node:path';
import * as vscode from 'vscode';
import { CloseAction, ErrorAction, LanguageClient, type LanguageClientOptions } from 'vscode-languageclient/node';
import type { PythonExtension } from './environment';
import { findInterpreter, type Interpreter, lastLine } from './interpreter';
import { showStatus } from './status';

/** How long (ms) a Python may take to say what it is, and the server to answer first and to end. */
const ANSWER_LIMIT = 10_000;
const START_LIMIT = 30_000;
const STOP_LIMIT = 2_000;
/** A server that ends this often in so many minutes is not started again. */
const DEATHS = 5;
const MINUTES = 3;

/** The user is told of a failure once, by `Server`: what the client says of it goes into the log alone. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data instanceof Error ? data.message : data, false);
  }
}

export class Server {
  /** The server that is ready, if one is. */
  ready: { interpreter: Interpreter; version: string } | undefined;
  private client: LanguageClient | undefined;
  private process: ChildProcess | undefined;
  private deaths: number[] = [];
  private queue: Promise<void> = Promise.resolve();
  private turn = 0;

  constructor(
    private readonly root: string,
    private readonly output: vscode.LogOutputChannel,
    private readonly status: vscode.StatusBarItem,
    private readonly python: PythonExtension,
  ) {}

  /** Start the server, anew where there is one. Only the last of several such wishes is carried out. */
  restart(why: string): Promise<void> {
    this.output.info(`Server: ${why}`);
    const turn = this.supersede();
    this.queue = this.queue.then(async () => {
      if (turn !== this.turn) return;
      await this.stop();
      await this.start(turn);
    });
    return this.queue;
  }

  /** Stop the server for good. */
  async dispose(): Promise<void> {
    this.supersede();
    await this.queue;
    await this.stop();
  }

  /** Make what is under way give way, a slow start at once. */
  private supersede(): number {
    if (!this.ready) this.process?.kill('SIGKILL');
    this.turn += 1;
    return this.turn;
  }

  private async start(turn: number): Promise<void> {
    showStatus(this.status, 'starting');
    try {
      const bundle = setting('importStrategy') === 'fromEnvironment' ? undefined : path.join(this.root, 'bundled');
      const interpreter = await this.find(bundle);
      if (turn !== this.turn) return;
      const version = await this.connect(interpreter.path, bundle ? ['-I', '-S', bundle] : ['-m', 'torchstray']);
      this.ready = { interpreter, version };
      const python = `Python ${interpreter.version}: ${interpreter.path}, from ${interpreter.origin}`;
      showStatus(this.status, 'ready', `Version ${version}, ${bundle ? 'bundled' : "the environment's own"}`, python);
      this.output.info(`Server: torchstray ${version} is ready, ${python}`);
    } catch (error) {
      if (turn === this.turn) this.fail(error instanceof Error ? error.message : String(error));
    }
  }

  private find(bundle: string | undefined): Promise<Interpreter> {
    const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
    return findInterpreter({
      setting: setting('interpreter'),
      environment: () => this.python.active(),
      workspaceFolder: folders[0],
      untrusted: vscode.workspace.isTrusted ? [] : folders,
      bundle,
      cwd: this.root,
      searchPath: process.env.PATH ?? '',
      limit: ANSWER_LIMIT,
      log: (line) => this.output.info(line),
    });
  }

  /** Start a process and shake hands with it; return the version of the server. */
  private async connect(command: string, args: string[]): Promise<string> {
    let lastWords = '';
    let isLate = false;
    const launch = async () => {
      const child = spawn(command, [...args, 'server'], { cwd: this.root, windowsHide: true });
      child.stderr.on('data', (data) => {
        lastWords = lastLine(String(data)) || lastWords;
      });
      child.on('exit', (code, signal) => this.output.info(`Server: process ${child.pid} ended, ${signal ?? code}`));
      await once(child, 'spawn');
      this.process = child;
      this.output.info(`Server: process ${child.pid}: ${child.spawnargs.join(' ')}`);
      return child;
    };
    const client = new QuietClient('torchstray', launch, this.options());
    this.client = client;
    const limit = setTimeout(() => {
      isLate = true;
      this.process?.kill('SIGKILL');
    }, START_LIMIT);
    try {
      await client.start();
      if (!client.isRunning()) throw new Error('the connection is closed');
      return client.initializeResult?.serverInfo?.version ?? 'unknown';
    } catch (error) {
      this.process?.kill('SIGKILL');
      if (isLate) throw new Error(`the server did not answer within ${START_LIMIT / 1000} seconds.`);
      throw new Error(`the server ended while it was started: ${lastWords || error}`);
    } finally {
      clearTimeout(limit);
    }
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: ['file', 'untitled'].map((scheme) => ({ language: 'python', scheme })),
      outputChannel: this.output,
      synchronize: { configurationSection: 'torchstray' },
      diagnosticPullOptions: { onChange: true, onFocus: true },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          if (this.ready) this.ended(); // one that is being started reports through its start
          return { action: CloseAction.DoNotRestart, handled: true, message: 'The connection is closed.' };
        },
      },
    };
  }

  /** The server has ended by itself. */
  private ended(): void {
    this.client = this.process = this.ready = undefined;
    this.deaths = [...this.deaths.filter((death) => Date.now() - death < MINUTES * 60_000), Date.now()];
    if (this.deaths.length >= DEATHS) {
      this.deaths = []; // whoever starts it again by hand may have mended it
      this.fail(`the server ended ${DEATHS} times in ${MINUTES} minutes.`);
      return;
    }
    showStatus(this.status, 'stopped');
    const message = "torchstray's server ended unexpectedly and was started again.";
    void offer(vscode.window.showWarningMessage(message, 'Show Logs'));
    void this.restart('started again after it ended unexpectedly');
  }

  private fail(reason: string): void {
    showStatus(this.status, 'failed', reason);
    this.output.error(`Server: ${reason}`);
    const choices = ['Select Interpreter', 'Show Logs', 'Retry'];
    void offer(vscode.window.showErrorMessage(`torchstray cannot start: ${reason}`, ...choices));
  }

  private async stop(): Promise<void> {
    const { client, process: child } = this;
    this.client = this.process = this.ready = undefined;
    await client?.dispose(STOP_LIMIT).catch((error) => this.output.debug(`Server: ${error}`));
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const limit = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT);
    await once(child, 'exit');
    clearTimeout(limit);
  }
}

/** Run what the user has chosen in a message. */
async function offer(choice: Thenable<string | undefined>): Promise<void> {
  const commands = { 'Select Interpreter': 'selectInterpreter', 'Show Logs': 'showLogs', Retry: 'restart' };
  const chosen = await choice;
  const command = Object.entries(commands).find(([name]) => name === chosen)?.[1];
  if (command) await vscode.commands.executeCommand(`torchstray.${command}`);
}

/** The value of a setting that the client reads. */
export function setting(name: 'interpreter' | 'importStrategy'): string {
  return String(vscode.workspace.getConfiguration('torchstray').get(name, '')).trim();
}
