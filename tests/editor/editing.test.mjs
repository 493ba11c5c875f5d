// @ts-check
// Typing, repair on save, suppression, and settings that are changed while the editor runs.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { Editor, position, sample } from './driver.mjs';

const FILE = 'layer_stack.py';
const RULE = 'unregistered-module';
const SETTINGS = '.vscode/settings.json';

describe('editing', () => {
  /** @type {Editor} */
  let editor;

  before(async () => {
    editor = await Editor.start({
      files: {
        [FILE]: sample(FILE),
        'smoothing.py': sample('smoothing.py'),
        'typed.py': 'import torch\nfrom torch import nn\n',
      },
    });
    await editor.open(FILE);
    await editor.squiggles(1);
  });
  afterEach((context) => editor.afterTest(context.name));
  after(() => editor?.close());

  it('underlines a mistake while it is typed, and keeps it while the next line is half typed', async () => {
    await editor.open('typed.py');
    await editor.press('Control+End');
    await editor.type('\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n');
    await editor.type('        self.mask = torch.ones(8)\n\n    def forward(self, x):\n        return x * self.mask');
    await editor.squiggles(1);
    await editor.type('\n\n    def half(self, x):\n        return x.view(');
    await editor.squiggles(2); // the statement that does not parse, and the mistake
    await editor.screenshot('typing');
    await editor.type('-1)');
    await editor.squiggles(1);
    await editor.save('typed.py');
  });

  it('ignores a finding on its line', async () => {
    await editor.open(FILE);
    await editor.goTo(...position(sample(FILE), 'self.linears = '));
    await editor.lightBulb();
    await editor.choose(`Ignore ${RULE} on this line`);
    await editor.squiggles(0);
    const lines = sample(FILE).replace('(depth)]\n', `(depth)]  # torchstray: ignore[${RULE}]\n`);
    assert.equal(await editor.save(FILE), lines);
    await editor.screenshot('ignored');
    await editor.press('Control+z');
    await editor.squiggles(1);
    assert.equal(await editor.save(FILE), sample(FILE));
  });

  it('applies a changed setting at once', async () => {
    await editor.open(FILE);
    editor.write(SETTINGS, JSON.stringify({ 'torchstray.severity': { [RULE]: 'warning' } }));
    await editor.squiggles(1, 'warning');
    await editor.squiggles(0, 'error');
    await editor.screenshot('setting');
    editor.write(SETTINGS, JSON.stringify({ 'torchstray.ignore': [RULE] }));
    await editor.squiggles(0, 'warning');
    editor.write(SETTINGS, '{}');
    await editor.squiggles(1, 'error');
  });

  it('applies a changed pyproject.toml at once, and says what is wrong in it', async () => {
    await editor.open(FILE);
    editor.write('pyproject.toml', `[tool.torchstray]\nignore = ["${RULE}"]\n`);
    await editor.squiggles(0);
    editor.write('pyproject.toml', '[tool.torchstray]\nignore = ["no-such-rule"]\n');
    await editor.notification(/no-such-rule/);
    await editor.screenshot('mistake in pyproject.toml');
    editor.write('pyproject.toml', '[tool.torchstray]\n');
    await editor.squiggles(1);
  });

  it('makes the safe repairs on save, and no others', async () => {
    await editor.open('smoothing.py');
    await editor.squiggles(1);
    // The missing line numbers show that the settings are read.
    const onSave = { 'source.fixAll.torchstray': 'explicit' };
    editor.write(SETTINGS, JSON.stringify({ 'editor.codeActionsOnSave': onSave, 'editor.lineNumbers': 'off' }));
    await editor.page.locator('.editor-group-container.active .line-numbers').first().waitFor({ state: 'detached' });
    await editor.press('Control+End');
    await editor.type('# end\n');
    await editor.press('Control+s');
    await editor.squiggles(0);
    assert.equal(await editor.save('smoothing.py'), `${sample('repaired/smoothing.py')}# end\n`);
    await editor.screenshot('on save');

    await editor.open(FILE);
    await editor.squiggles(1);
    await editor.press('Control+End');
    await editor.type('# end\n');
    assert.equal(await editor.save(FILE), `${sample(FILE)}# end\n`);
    await editor.squiggles(1);
  });
});
