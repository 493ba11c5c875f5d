// @ts-check
// The server's life: killed, not to be started, restarted, in a workspace that is not trusted.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { PYTHON } from '../../scripts/tools/python.mjs';
import { Editor, position, sample } from './driver.mjs';

const FILE = 'smoothing.py';

describe('a server that ends', () => {
  /** @type {Editor} */
  let editor;

  before(async () => {
    editor = await Editor.start({ files: { [FILE]: sample(FILE) } });
    await editor.open(FILE);
    await editor.squiggles(1);
  });
  afterEach((context) => editor.afterTest(context.name));
  after(() => editor?.close());

  it('gives up where it ends again and again, and tries once more when asked', async () => {
    const deaths = 5;
    let ended = 0;
    for (let death = 1; death <= deaths; death += 1) {
      ended = await editor.serverProcess(ended);
      await editor.status('check');
      process.kill(ended, 'SIGKILL');
      await editor.status(death < deaths ? 'loading' : 'error');
    }
    const message = await editor.notification('torchstray cannot start: the server ended 5 times in 3 minutes');
    await editor.screenshot('server gave up');
    await message.getByRole('button', { name: 'Retry' }).click();
    await editor.serverProcess(ended);
    await editor.status('check');
  });

  it('comes back after it was killed, and says so', async () => {
    await editor.status('check');
    const killed = await editor.serverProcess();
    process.kill(killed, 'SIGKILL');
    const message = await editor.notification('ended unexpectedly and was started again');
    await message.getByRole('button', { name: 'Show Logs' }).waitFor();
    await editor.serverProcess(killed);
    await editor.status('check');
    await editor.squiggles(1);
    await editor.screenshot('server killed');
    await editor.focus();
    await editor.goTo(...position(sample(FILE), 'self.k = '));
    await editor.lightBulb();
    await editor.choose('Register it as a buffer (`persistent=False`)');
    await editor.squiggles(0);
  });

  it('is restarted by hand', async () => {
    const old = await editor.serverProcess();
    await editor.command('torchstray: Restart Server');
    await editor.serverProcess(old);
    await editor.status('check');
    assert.deepEqual(await editor.notifications(), []);
  });

  it('tells all that a report of a problem needs', async () => {
    await editor.command('torchstray: Show Debug Information');
    await editor.page.locator('.tab.active', { hasText: 'Untitled' }).waitFor();
    const text = await editor.visibleText(/Python/);
    assert.ok(text.includes(PYTHON), text);
    await editor.screenshot('debug information');
  });
});

describe('an interpreter that does not exist', () => {
  /** @type {Editor} */
  let editor;

  before(async () => {
    editor = await Editor.start({
      files: { [FILE]: sample(FILE) },
      machine: { 'torchstray.interpreter': '/no/such/python3' },
    });
  });
  after(() => editor?.close());

  it('says so, and offers the way out', async () => {
    await editor.open(FILE);
    const message = await editor.notification(/torchstray cannot start: .*\/no\/such\/python3/);
    await editor.status('error');
    for (const name of ['Show Logs', 'Retry']) await message.getByRole('button', { name }).waitFor();
    await editor.screenshot('no interpreter');
    await message.getByRole('button', { name: 'Select Interpreter' }).click();
    await editor.page.locator('.quick-input-widget:visible', { hasText: 'Choose automatically' }).waitFor();
    await editor.screenshot('select interpreter');
    await editor.pick('Choose automatically');
    await editor.settingRemoved('torchstray.interpreter');
    // Whatever Python this machine has on its PATH: with one that works, it works.
    editor.set('Machine', { 'torchstray.interpreter': PYTHON });
    await editor.squiggles(1);
    await editor.status('check');
  });
});

describe('a workspace that is not trusted', () => {
  /** @type {Editor} */
  let editor;
  const trap = 'python from the workspace';

  before(async () => {
    editor = await Editor.start({
      files: { [FILE]: sample(FILE), [trap]: '#!/bin/sh\ntouch "$(dirname "$0")/was run"\n' },
      user: {
        'security.workspace.trust.enabled': true,
        'security.workspace.trust.startupPrompt': 'never',
        'security.workspace.trust.banner': 'never',
      },
    });
    fs.chmodSync(path.join(editor.folder, trap), 0o755);
  });
  after(() => editor?.close());

  it('is checked, and nothing of it is run', async () => {
    editor.write('.vscode/settings.json', JSON.stringify({ 'torchstray.interpreter': path.join(editor.folder, trap) }));
    await editor.open(FILE);
    await editor.page.locator('.statusbar-item', { hasText: 'Restricted Mode' }).waitFor();
    await editor.squiggles(1);
    const first = await editor.serverProcess();
    await editor.command('torchstray: Restart Server');
    await editor.serverProcess(first);
    await editor.status('check');
    await editor.squiggles(1);
    await editor.screenshot('not trusted');
    assert.ok(!fs.existsSync(path.join(editor.folder, 'was run')));
  });
});
