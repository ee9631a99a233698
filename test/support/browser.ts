import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, type TestContext } from 'vitest';
import { needs } from './needs.ts';

const COMMANDS = ['chromium', 'chromium-browser', 'google-chrome'];
/** Far beyond what a page on this machine takes: who still waits then hangs. */
const HANGS_MS = 30_000;
const FLAGS = [
  '--no-sandbox', // tests may run as root
  '--disable-gpu',
  '--disable-quic',
  '--disable-component-update',
  '--disable-background-networking',
  '--disable-sync',
  '--no-first-run',
  // A page of a test talks to this machine and to nothing else.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
];

export interface OpenPage {
  readonly page: Page;
  /** What the page said on its console, and what it threw: `error: …`, one entry each. */
  readonly said: readonly string[];
}

/**
 * A real browser for the tests of a file: started with the first page, ended with the file. Every page has cookies and
 * storage of its own and is closed with its test. Without a browser the test is skipped; in CI that is a failure.
 */
export function useBrowser(): (context: TestContext, url: string) => Promise<OpenPage> {
  let profile: string | undefined;
  let starting: Promise<BrowserContext> | undefined;
  const contexts: BrowserContext[] = [];
  afterEach(async () => {
    for (const context of contexts.splice(0)) await context.close();
  });
  afterAll(async () => {
    await (await starting)?.close();
    if (profile) rmSync(profile, { recursive: true, force: true });
  });
  const start = (executablePath: string) => {
    profile = mkdtempSync(join(tmpdir(), 'spear-browser-'));
    // Not launch(): that one makes its profile in a place of its own, and leaves it behind when it is killed.
    return chromium.launchPersistentContext(profile, { executablePath, args: FLAGS, timeout: HANGS_MS });
  };
  return async (test, url) => {
    const executablePath = findBrowser();
    const missing = needs(executablePath !== undefined, 'chromium', 'apt-get install chromium');
    if (executablePath === undefined) return test.skip(missing);
    starting ??= start(executablePath);
    const browser = (await starting).browser();
    if (!browser) throw new Error('the browser is gone');
    const context = await browser.newContext();
    contexts.push(context);
    context.setDefaultTimeout(HANGS_MS);
    const page = await context.newPage();
    const said: string[] = [];
    page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => said.push(`error: ${error.message}`));
    await page.goto(url);
    return { page, said };
  };
}

function findBrowser(): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.flatMap((folder) => COMMANDS.map((name) => join(folder, name))).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
