// @ts-check
// The picture in the README: its example, with what is underlined and the light bulb's menu. With the environment variable
// TORCHSTRAY_UPDATE_PICTURE=1 the picture is written anew.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ROOT } from '../../scripts/tools/console.mjs';
import { Editor, position } from './driver.mjs';

const README = fs.readFileSync(path.join(ROOT, 'README.md'), 'utf8');
const EXAMPLE = /^```python\n(.*?)^```$/ms.exec(README)?.[1] ?? '';
const PICTURE = path.join(ROOT, 'docs', 'images', 'light-bulb.png');
const LARGEST = 150_000;

describe('the picture in the README', () => {
  /** @type {Editor} */
  let editor;

  before(async () => {
    editor = await Editor.start({
      files: { 'net.py': EXAMPLE },
      user: { 'breadcrumbs.enabled': false, 'workbench.activityBar.location': 'hidden' },
      size: { width: 900, height: 450 },
    });
  });
  after(() => editor?.close());

  it('shows what is underlined, and the choices', async () => {
    await editor.open('net.py');
    await editor.command('View: Toggle Primary Side Bar Visibility');
    await editor.focus();
    await editor.squiggles(2);
    await editor.goTo(...position(EXAMPLE, 'self.k = '));
    const titles = await editor.lightBulb();
    assert.match(titles[0] ?? '', /^Register it as a buffer/);
    const picture = await editor.screenshot('picture');
    assert.ok(picture.length < LARGEST, `${picture.length} bytes`);
    if (!process.env.TORCHSTRAY_UPDATE_PICTURE) return;
    fs.mkdirSync(path.dirname(PICTURE), { recursive: true });
    fs.writeFileSync(PICTURE, picture);
  });
});
