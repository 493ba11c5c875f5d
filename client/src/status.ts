// The item in the status bar: how the server is, and the way to what can be done about it.
import * as vscode from 'vscode';

const LOOKS = {
  starting: { icon: '$(loading~spin)', color: undefined },
  ready: { icon: '$(check)', color: undefined },
  failed: { icon: '$(error)', color: new vscode.ThemeColor('statusBarItem.errorBackground') },
  stopped: { icon: '$(warning)', color: new vscode.ThemeColor('statusBarItem.warningBackground') },
};

/** Show a state, and more of it in the item's tooltip. */
export function showStatus(item: vscode.StatusBarItem, state: keyof typeof LOOKS, ...details: string[]): void {
  item.name = 'torchstray';
  item.text = `${LOOKS[state].icon} torchstray`;
  item.backgroundColor = LOOKS[state].color;
  item.tooltip = [`torchstray: ${state}`, ...details].join('\n');
  item.command = 'torchstray.actions';
  item.show();
}
