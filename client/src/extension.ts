// The client for VS Code: it starts the server and shows how it is. All analysis is the server's.
import * as vscode from 'vscode';
import { chooseAction, selectInterpreter, showDebugInformation } from './commands';
import { PythonExtension } from './environment';
import { Server, setting } from './server';

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const output = vscode.window.createOutputChannel('torchstray', { log: true });
  const status = vscode.window.createStatusBarItem('torchstray', vscode.StatusBarAlignment.Right, 100);
  const python = new PythonExtension(context.subscriptions, () => {
    if (!setting('interpreter')) void started.restart('the environment of the Python extension changed');
  });
  const started = new Server(context.extensionPath, output, status, python);
  server = started;
  const command = (name: string, run: () => unknown) => vscode.commands.registerCommand(`torchstray.${name}`, run);
  context.subscriptions.push(
    output,
    status,
    command('actions', chooseAction),
    command('restart', () => started.restart('restart asked for')),
    command('showLogs', () => output.show()),
    command('selectInterpreter', selectInterpreter),
    command('debugInformation', () => showDebugInformation(context, started)),
    vscode.workspace.onDidChangeConfiguration((event) => {
      const names = ['torchstray.interpreter', 'torchstray.importStrategy'];
      const changed = names.filter((name) => event.affectsConfiguration(name));
      if (changed.length > 0) void started.restart(`${changed.join(' and ')} changed`);
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => started.restart('the workspace is trusted now')),
  );
  void started.restart('start');
}

export async function deactivate(): Promise<void> {
  await server?.dispose();
}
