// What the user can do about the server.
import * as vscode from 'vscode';
import type { Server } from './server';

const ACTIONS: Record<string, string> = {
  'Restart Server': 'torchstray.restart',
  'Show Logs': 'torchstray.showLogs',
  'Select Interpreter…': 'torchstray.selectInterpreter',
  'Show Debug Information': 'torchstray.debugInformation',
};

/** Let the user choose one of the commands. */
export async function chooseAction(): Promise<void> {
  const action = await vscode.window.showQuickPick(Object.keys(ACTIONS), { title: 'torchstray' });
  if (action) await vscode.commands.executeCommand(ACTIONS[action] ?? '');
}

/** Let the user choose a Python, and write it into the setting. */
export async function selectInterpreter(): Promise<void> {
  const automatic = { label: 'Choose automatically', description: "the Python extension's, or the first on PATH" };
  const browse = { label: 'Browse…', description: 'find a Python on the disk' };
  const title = 'torchstray: the Python that runs the server';
  const chosen = await vscode.window.showQuickPick([automatic, browse], { title });
  const files = chosen === browse ? await vscode.window.showOpenDialog({ title }) : undefined;
  if (chosen !== automatic && !files) return;
  const settings = vscode.workspace.getConfiguration('torchstray');
  // A value of the workspace would go on winning over the user's own.
  const isWorkspace = settings.inspect('interpreter')?.workspaceValue !== undefined;
  const { Global, Workspace } = vscode.ConfigurationTarget;
  await settings.update('interpreter', files?.[0]?.fsPath, isWorkspace ? Workspace : Global);
}

/** Open an unsaved document with what a bug report needs to say. */
export async function showDebugInformation(context: vscode.ExtensionContext, server: Server): Promise<void> {
  const { interpreter, version } = server.ready ?? {};
  const remote = vscode.env.remoteName ? `, remote (${vscode.env.remoteName})` : '';
  const facts = {
    Extension: context.extension.packageJSON.version,
    Server: version ?? 'not running',
    Python: interpreter ? `${interpreter.version}, ${interpreter.path}, from ${interpreter.origin}` : 'none',
    Editor: `${vscode.env.appName} ${vscode.version}${remote}`,
    System: `${process.platform} ${process.arch}`,
    'Workspace is trusted': vscode.workspace.isTrusted ? 'yes' : 'no',
  };
  const lines = Object.entries(facts).map(([name, fact]) => `- ${name}: ${fact}\n`);
  const settings = JSON.stringify(vscode.workspace.getConfiguration('torchstray'), null, 2);
  const content = `# torchstray: debug information\n\n${lines.join('')}\n\`\`\`json\n${settings}\n\`\`\`\n`;
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: 'markdown', content }));
}
