// @ts-check
// Drives the real VS Code as a person does: by keys, mouse and what is to be read on the screen.
// All that knows VS Code's pages (selectors are no API, they hold for one version) is in this file.
// With the environment variable TORCHSTRAY_KEEP=1 the folders of the tests are kept, with VS Code's logs in server/data/logs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { findChromium } from '../../scripts/tools/chromium.mjs';
import { CodeServer } from '../../scripts/tools/code-server.mjs';
import { ROOT } from '../../scripts/tools/console.mjs';
import { PACKAGE } from '../../scripts/tools/extension.mjs';
import { PYTHON } from '../../scripts/tools/python.mjs';
import { CALM_SETTINGS } from '../../scripts/tools/settings.mjs';

/** @typedef {import('playwright-core').Locator} Locator */

/** Without what answers to typing, or moves: suggestions, brackets that close themselves, sticky lines. */
const STEADY_SETTINGS = {
  ...CALM_SETTINGS,
  'editor.acceptSuggestionOnEnter': 'off',
  'editor.autoClosingBrackets': 'never',
  'editor.autoClosingQuotes': 'never',
  'editor.autoIndent': 'none',
  'editor.minimap.enabled': false,
  'editor.quickSuggestions': { other: 'off', comments: 'off', strings: 'off' },
  'editor.stickyScroll.enabled': false,
  'editor.suggestOnTriggerCharacters': false,
  'files.autoSave': 'off',
  'git.enabled': false,
  'window.commandCenter': false,
  'workbench.reduceMotion': 'on',
};

const PATIENCE = 30_000;
/** The extension host starts up to 20 s after the page on a busy machine. */
const START_PATIENCE = 90_000;
const GROUP = '.editor-group-container.active';
/** The menu has a second, empty one in it, for submenus. */
const ACTIONS = '.action-widget:not(.action-list-submenu-panel)';
const PICKER = '.quick-input-widget:visible';

const SCREENSHOTS = path.join(ROOT, 'build', 'screenshots');

/**
 * @typedef {object} Options
 * @property {Record<string, string>} files what the opened folder holds: names and texts
 * @property {Record<string, unknown>} [user] user settings
 * @property {Record<string, unknown>} [machine] settings of scope machine and machine-overridable
 * @property {{ width: number, height: number }} [size] of the window
 */

/**
 * @param {string} name
 * @returns {string} the text of one of the samples
 */
export function sample(name) {
  return fs.readFileSync(path.join(ROOT, 'samples', name), 'utf8');
}

/**
 * @param {string} text
 * @param {string} word
 * @returns {[number, number]} line and column where the word is first, from 1
 */
export function position(text, word) {
  const before = text.slice(0, text.indexOf(word)).split('\n');
  return [before.length, (before.at(-1) ?? '').length + 1];
}

/**
 * Wait for something outside of the window, of which no event tells.
 * @template T
 * @param {string} complaint what is said if it does not come
 * @param {() => T | undefined} look
 * @returns {Promise<T>}
 */
async function until(complaint, look) {
  for (const limit = Date.now() + PATIENCE; Date.now() < limit; await setTimeout(100)) {
    const found = look();
    if (found !== undefined) return found;
  }
  return assert.fail(complaint);
}

/** A VS Code window in a browser, with a server, data and a folder of its own. */
export class Editor {
  /** How often the light bulb's key had to be pressed again, in all windows. */
  static retries = 0;

  /** @type {import('playwright-core').Browser} */
  #browser;
  #home;
  /** @type {CodeServer} */
  #server;

  /**
   * Start VS Code with the extension, and open a folder.
   * @param {Options} options
   */
  static async start({ files, user = {}, machine = {}, size = { width: 1280, height: 800 } }) {
    // A space and a letter beyond ASCII, since people have such folders.
    const home = fs.mkdtempSync(path.join(os.tmpdir(), 'torchstray é '));
    const server = new CodeServer(path.join(home, 'server'));
    const browser = await chromium.launch(await findChromium());
    const editor = new Editor(home, server, browser);
    try {
      for (const [name, text] of Object.entries(files)) editor.write(name, text);
      editor.set('User', { ...STEADY_SETTINGS, ...user });
      editor.set('Machine', { 'torchstray.interpreter': PYTHON, ...machine });
      await server.install(PACKAGE);
      await server.start(editor.folder);
      const context = await browser.newContext({ viewport: size, locale: 'en-US' });
      context.setDefaultTimeout(PATIENCE);
      await context.request.post(`${server.address}/login`, { form: { password: server.password } });
      editor.page = await context.newPage();
      await editor.page.goto(server.address);
      await editor.page.locator('.monaco-workbench').waitFor({ timeout: START_PATIENCE });
      return editor;
    } catch (error) {
      await editor.close();
      throw error;
    }
  }

  /**
   * @param {string} home
   * @param {CodeServer} server
   * @param {import('playwright-core').Browser} browser
   */
  constructor(home, server, browser) {
    this.#home = home;
    this.#server = server;
    this.#browser = browser;
    this.folder = path.join(home, 'my project');
    /** @type {import('playwright-core').Page} */
    this.page = /** @type {any} */ (undefined);
  }

  async close() {
    console.log(`The light bulb's key was pressed again ${Editor.retries} times.`);
    await this.#browser.close();
    await this.#server.stop();
    if (!process.env.TORCHSTRAY_KEEP) fs.rmSync(this.#home, { recursive: true, force: true, maxRetries: 5 });
    else console.log(`kept: ${this.#home}`);
  }

  // Files and settings

  /**
   * @param {string} name
   * @param {string} text
   */
  write(name, text) {
    const file = path.join(this.folder, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, text);
  }

  /** @param {string} name */
  read(name) {
    return fs.readFileSync(path.join(this.folder, name), 'utf8');
  }

  /**
   * @param {'User' | 'Machine'} scope
   * @param {Record<string, unknown>} values
   */
  set(scope, values) {
    this.#server.writeSettings(scope, values);
  }

  /**
   * Wait for a setting to be gone from the settings of scope machine.
   * @param {string} name
   */
  settingRemoved(name) {
    const file = this.#server.settingsFile('Machine');
    return until(`${name} is still set`, () => !fs.readFileSync(file, 'utf8').includes(name) || undefined);
  }

  // The window

  /**
   * Take a picture of the window.
   * @param {string} name
   */
  async screenshot(name) {
    fs.mkdirSync(SCREENSHOTS, { recursive: true });
    return this.page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
  }

  /** @param {string} keys */
  press(keys) {
    return this.page.keyboard.press(keys);
  }

  /** @param {string} text */
  type(text) {
    return this.page.keyboard.type(text);
  }

  /**
   * Keep a picture of how a test ended, and close what it has left open: menus, pickers, dialogs, notifications.
   * @param {string} name of the test
   */
  async afterTest(name) {
    await this.screenshot(`after ${name.replace(/[^\w ]+/g, '')}`);
    for (let round = 0; round < 3; round += 1) await this.press('Escape');
    if (await this.page.locator('.notification-toast').count()) {
      await this.command('Notifications: Clear All Notifications');
    }
  }

  /**
   * Run a command of the palette.
   * @param {string} title
   */
  async command(title) {
    await this.press('F1');
    await this.pick(title, `>${title}`);
  }

  /**
   * Choose a row of the picker that is open.
   * @param {string | RegExp} title
   * @param {string} [typed] what to type first, to find it
   */
  async pick(title, typed) {
    const picker = this.page.locator(PICKER);
    await picker.waitFor();
    if (typed !== undefined) await picker.locator('input').first().fill(typed);
    const row = picker.locator('.quick-input-list .monaco-list-row', { hasText: title }).first();
    const handle = await row.elementHandle();
    await row.click();
    await this.page.waitForFunction((element) => !element?.isConnected || !element.checkVisibility(), handle);
  }

  /**
   * Open a file at the top of the folder.
   * @param {string} name
   */
  async open(name) {
    const rows = this.page.locator('.explorer-folders-view .monaco-list-row');
    await rows.filter({ has: this.page.getByText(name, { exact: true }) }).dblclick({ timeout: START_PATIENCE });
    await this.page.locator(`.tab.active[data-resource-name="${name}"]`).waitFor();
    await this.page.locator(`${GROUP} .editor-instance .view-line`).first().waitFor();
    await this.focus();
  }

  /** Bring the keyboard to the text. */
  async focus() {
    await this.command('View: Focus Active Editor Group');
    await this.page.waitForFunction(() => document.activeElement?.closest('.editor-instance .monaco-editor'));
  }

  /**
   * Put the cursor somewhere.
   * @param {number} line from 1
   * @param {number} column from 1
   */
  async goTo(line, column) {
    await this.press('Control+g');
    const picker = this.page.locator(PICKER);
    await picker.locator('input').first().fill(`:${line}:${column}`);
    await this.press('Enter');
    await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
  }

  /**
   * Save the file that is open.
   * @param {string} name
   * @returns {Promise<string>} its text, read from the disk
   */
  async save(name) {
    await this.press('Control+s');
    await this.page.locator(`${GROUP} .tab.active:not(.dirty)`).waitFor();
    return this.read(name);
  }

  // What the extension shows

  /**
   * Wait until as many places are underlined.
   * @param {number} count
   * @param {'error' | 'warning' | 'hint'} severity
   * @param {number} [timeout]
   */
  async squiggles(count, severity = 'error', timeout = START_PATIENCE) {
    const selector = `${GROUP} .view-overlays .squiggly-${severity}`;
    await this.page
      .waitForFunction(
        ([css, number]) => document.querySelectorAll(css).length === number,
        /** @type {const} */ ([selector, count]),
        { timeout },
      )
      .catch(async () => {
        const there = await this.page.locator(selector).count();
        assert.fail(`${count} squiggles (${severity}) were expected, ${there} are there after ${timeout} ms`);
      });
  }

  /**
   * @param {RegExp} expected what has to be among them
   * @returns {Promise<string>} the rows of the Problems panel
   */
  async problems(expected) {
    await this.command('Problems: Focus on Problems View');
    return this.#text(this.page.locator('.markers-panel-container .monaco-list-rows'), expected);
  }

  /**
   * Point with the mouse at a word of the text.
   * @param {string} word
   * @param {RegExp} expected what has to be in the hover
   * @returns {Promise<string>} what the hover says
   */
  async hover(word, expected) {
    const box = await this.#place(word);
    await this.page.mouse.move(0, 0);
    await this.page.mouse.move(box.x, box.y, { steps: 4 });
    return this.#text(this.page.locator('.monaco-hover:visible'), expected);
  }

  /**
   * Open the light bulb's menu where the cursor is.
   * @returns {Promise<string[]>} its titles
   */
  async lightBulb() {
    const bulb = `${GROUP} [class*="codicon-gutter-lightbulb"], ${GROUP} .lightBulbWidget:visible`;
    await this.page.locator(bulb).first().waitFor();
    await this.press('Control+.');
    const menu = this.page.locator(ACTIONS);
    try {
      await menu.waitFor({ timeout: 5000 });
    } catch {
      // VS Code now and then ignores the key right after the cursor moved.
      Editor.retries += 1;
      await this.press('Control+.');
      await menu.waitFor();
    }
    const titles = menu.locator('.monaco-list-row.action .title');
    await titles.first().waitFor();
    return (await titles.allInnerTexts()).map(plain);
  }

  /**
   * Choose from the light bulb's menu.
   * @param {string | RegExp} title
   */
  async choose(title) {
    await this.page.locator(`${ACTIONS} .monaco-list-row.action`, { hasText: title }).first().click();
    await this.page.locator(ACTIONS).waitFor({ state: 'hidden' });
  }

  /**
   * @param {string | RegExp} text
   * @returns {Promise<Locator>} the notification, once it is there
   */
  async notification(text) {
    const toast = this.page.locator('.notification-toast', { hasText: text }).first();
    await toast.waitFor({ timeout: START_PATIENCE });
    return toast;
  }

  /** @returns {Promise<string[]>} the messages that are shown */
  async notifications() {
    return (await this.page.locator('.notification-toast .notification-list-item-message').allInnerTexts()).map(plain);
  }

  /**
   * Wait for the extension's item in the status bar to show an icon.
   * @param {'check' | 'error' | 'warning' | 'loading'} icon
   * @returns {Promise<Locator>} the item
   */
  async status(icon) {
    const item = this.page.locator('.statusbar-item', {
      hasText: 'torchstray',
      has: this.page.locator(`.codicon-${icon}`),
    });
    await item.first().waitFor({ timeout: START_PATIENCE });
    return item.first();
  }

  /**
   * @param {RegExp} expected what has to be in it
   * @returns {Promise<string>} the text on the screen, its lines in no order
   */
  visibleText(expected) {
    return this.#text(this.page.locator(`${GROUP} .editor-instance .view-lines`), expected);
  }

  /**
   * @param {number} [before] a process that it is not any more
   * @returns {Promise<number>} the id of the process that the extension runs its server in, once there is one
   */
  serverProcess(before) {
    return until('there is no new server process', () => {
      const id = this.#findServer();
      return id === before ? undefined : id;
    });
  }

  #findServer() {
    const bundle = path.join(this.#home, 'server', 'extensions');
    for (const id of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const command = fs.readFileSync(`/proc/${id}/cmdline`, 'utf8').split('\0');
        if (command.some((word) => word.startsWith(bundle) && word.endsWith('bundled'))) return Number(id);
      } catch {
        // It ended meanwhile.
      }
    }
    return undefined;
  }

  /**
   * Where a word of the visible text is drawn.
   * @param {string} word
   */
  async #place(word) {
    const place = await this.page.evaluate(
      ([css, wanted]) => {
        for (const line of document.querySelectorAll(`${css} .editor-instance .view-line`)) {
          // Each token of the line is an element of its own.
          const at = (line.textContent ?? '').replaceAll('\u00a0', ' ').indexOf(wanted);
          if (at < 0) continue;
          const range = document.createRange();
          const texts = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
          let passed = 0;
          for (let node = texts.nextNode(); node; node = texts.nextNode()) {
            const next = passed + (node.textContent ?? '').length;
            if (passed <= at && at < next) range.setStart(node, at - passed);
            if (passed < at + wanted.length && at + wanted.length <= next)
              range.setEnd(node, at + wanted.length - passed);
            passed = next;
          }
          const box = range.getBoundingClientRect();
          return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
        }
        return undefined;
      },
      /** @type {const} */ ([GROUP, word]),
    );
    assert.ok(place, `${word} is not on the screen`);
    return place;
  }

  /**
   * Wait for a text to be shown somewhere.
   * @param {Locator} place
   * @param {RegExp} expected
   * @returns {Promise<string>} all that is shown there
   */
  async #text(place, expected) {
    try {
      await place.filter({ hasText: expected }).first().waitFor();
    } catch {
      assert.match(plain((await place.allInnerTexts()).join('\n')), expected);
    }
    return plain((await place.allInnerTexts()).join('\n'));
  }
}

/** @param {string} text */
function plain(text) {
  return text.replaceAll('\u00a0', ' ').replaceAll('\u00b7', ' ');
}
