// @ts-check
// The browser that the tests look at VS Code with.
import { findProgram, Problem } from './console.mjs';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const WAY_OUT = 'sudo apt-get install -y chromium, or CHROME_PATH=/path/to/chrome';

/**
 * Find a Chromium and start it once.
 * @returns {Promise<{ executablePath: string, args: string[], version: string }>}
 * @throws {Problem} if there is none, or it does not start
 */
export async function findChromium() {
  const { executablePath, args } = await candidate();
  const { chromium } = await import('playwright-core');
  try {
    const browser = await chromium.launch({ executablePath, args });
    const version = browser.version();
    await browser.close();
    return { executablePath, args, version };
  } catch (error) {
    const reason =
      /error while loading shared libraries: [^\n]*|spawn [^\n]*/.exec(String(error))?.[0] ?? String(error);
    throw new Problem(`${executablePath} does not start (${reason.trim()}): ${WAY_OUT}`);
  }
}

async function candidate() {
  const installed = process.env.CHROME_PATH ?? NAMES.map(findProgram).find(Boolean);
  if (installed) return { executablePath: installed, args: ['--disable-dev-shm-usage', '--disable-gpu'] };
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new Problem(`No Chromium was found: ${WAY_OUT}`);
  const { default: packed } = await import('@sparticuz/chromium');
  // Its own list has flags for single-process sandboxes, in which VS Code's workers do not start.
  return { executablePath: await packed.executablePath(), args: ['--disable-dev-shm-usage', '--disable-gpu'] };
}
