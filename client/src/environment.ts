// What is chosen in the Python extension, where that is installed.
import * as vscode from 'vscode';

/** The part of the Python extension's interface that is used here. */
interface Environments {
  readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  getActiveEnvironmentPath(resource?: vscode.Uri): unknown;
  resolveEnvironment(path: unknown): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
}

export class PythonExtension {
  private environments: Promise<Environments | undefined> | undefined;
  private last: string | undefined;

  /** `changed` is called when the active Python is no longer the one that was asked for last. */
  constructor(
    private readonly subscriptions: vscode.Disposable[],
    private readonly changed: () => void,
  ) {}

  /** Return the Python of the active environment. There is none in a workspace that is not trusted: it may have chosen. */
  async active(): Promise<string | undefined> {
    const extension = vscode.extensions.getExtension('ms-python.python');
    if (!extension || !vscode.workspace.isTrusted) return undefined; // may be there, and trusted, the next time
    this.environments ??= Promise.resolve(extension.activate()).then((api) => this.watch(api?.environments));
    const environments = await this.environments;
    const chosen = environments?.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri);
    this.last = (await environments?.resolveEnvironment(chosen))?.executable.uri?.fsPath;
    return this.last;
  }

  private watch(environments: Environments | undefined): Environments | undefined {
    const listener = environments?.onDidChangeActiveEnvironmentPath(async () => {
      const before = this.last;
      if ((await this.active()) !== before) this.changed();
    });
    if (listener) this.subscriptions.push(listener);
    return environments;
  }
}
