// @ts-check
// The mistakes of the samples: underlined, listed, explained, and repaired with the light bulb.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { Editor, position, sample } from './driver.mjs';

const CASES = [
  { file: 'layer_stack.py', rule: 'unregistered-module', at: 'self.linears = ', repair: 'Use `nn.ModuleList`' },
  {
    file: 'task_weights.py',
    rule: 'unregistered-parameter',
    at: 'self.sigmas = ',
    repair: 'Make it an `nn.Parameter`',
  },
  {
    file: 'smoothing.py',
    rule: 'unregistered-tensor',
    at: 'self.k = ',
    repair: 'Register it as a buffer (`persistent=False`)',
  },
  { file: 'two_stages.py', rule: 'layer-in-forward', at: 'SecondStage()', repair: 'Build it once, in `__init__`' },
];

describe('light bulb', () => {
  /** @type {Editor} */
  let editor;

  before(async () => {
    editor = await Editor.start({ files: Object.fromEntries(CASES.map(({ file }) => [file, sample(file)])) });
  });
  afterEach((context) => editor.afterTest(context.name));
  after(() => editor?.close());

  it('says what a class registers, and what not', async () => {
    await editor.open('layer_stack.py');
    await editor.squiggles(1);
    await editor.hover('LayerStack', /Stays behind:\s+linears: .*line 12/);
    await editor.screenshot('class-hover');
  });

  for (const { file, rule, at, repair } of CASES) {
    it(`${file}: underlines, explains and repairs`, async () => {
      const name = path.basename(file, '.py');
      await editor.open(file);
      await editor.squiggles(1);

      const rows = await editor.problems(new RegExp(rule));
      assert.match(rows, new RegExp(`torchstray\\s+${rule}`));
      await editor.screenshot(`${name}-problems`);
      await editor.command('View: Hide Panel');

      const hover = await editor.hover(at.split(' ')[0] ?? at, new RegExp(rule));
      assert.match(hover, /never train|leaves it on the CPU|never updates|never trained/);
      await editor.screenshot(`${name}-hover`);

      await editor.focus();
      await editor.goTo(...position(sample(file), at));
      const titles = await editor.lightBulb();
      assert.match(titles[0] ?? '', new RegExp(`^${repair.replace(/[()`.]/g, '\\$&')}`));
      assert.ok(titles.includes(`Ignore ${rule} on this line`), titles.join(' | '));
      await editor.screenshot(`${name}-light-bulb`);

      await editor.choose(repair);
      await editor.squiggles(0);
      assert.equal(await editor.save(file), sample(`repaired/${file}`));
      await editor.screenshot(`${name}-repaired`);
    });
  }
});
