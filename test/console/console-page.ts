import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { expect, type TestContext } from 'vitest';
import type { TestSms } from '../registry/running-sms.ts';
import type { OpenPage } from '../support/browser.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const pictures = fileURLToPath(new URL('../../coverage/console/', import.meta.url));

/** What a page shows is there within moments, or never. */
const HANGS_MS = 20_000;

interface Violation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

interface Axe {
  run(options: { readonly runOnly?: readonly string[] }): Promise<{ readonly violations: Violation[] }>;
}

/** A console in a real browser, as somebody uses it. */
export class ConsolePage {
  readonly page: Page;
  readonly #said: readonly string[];

  constructor({ page, said }: OpenPage) {
    this.page = page;
    this.#said = said;
    page.setDefaultTimeout(HANGS_MS);
  }

  async signIn(token: string): Promise<this> {
    await this.page.getByLabel('Token').fill(token);
    await this.page.getByRole('button', { name: 'Sign in' }).click();
    await this.page.getByRole('navigation').waitFor();
    return this;
  }

  /** Opens an address of the console without leaving its page: that would forget who it is. */
  async go(path: string, heading: string): Promise<void> {
    await this.page.evaluate(`location.hash = ${JSON.stringify(`#/${path}`)}`);
    await this.page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
  }

  /** Refused by the policy of the page, thrown by its code, or said as an error. */
  complaints(): string[] {
    return this.#said.filter((line) => line.startsWith('error:') && !line.includes('Failed to load resource'));
  }

  /** What axe-core finds wrong, one line each. */
  async violations(rules?: readonly string[]): Promise<string[]> {
    // The page renders after its load event; every page has a heading.
    await this.page.getByRole('heading', { level: 1 }).first().waitFor();
    // By the debugger's own way in: a script element would be refused, as it has to be.
    if (!(await this.page.evaluate(() => 'axe' in globalThis))) await this.page.evaluate(axe);
    const found = await this.page.evaluate(async (only) => {
      const { axe: engine } = globalThis as unknown as { axe: Axe };
      return (await engine.run(only === null ? {} : { runOnly: only })).violations;
    }, rules ?? null);
    return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`);
  }

  async picture(name: string): Promise<void> {
    mkdirSync(pictures, { recursive: true });
    await this.page.screenshot({ path: join(pictures, `${name}.png`) });
  }

  /** Nothing of the page may break what it promises. */
  async expectClean(rules?: readonly string[]): Promise<void> {
    expect(await this.violations(rules)).toEqual([]);
    expect(this.complaints()).toEqual([]);
  }
}

export async function openConsole(
  open: (context: TestContext, url: string) => Promise<OpenPage>,
  test: TestContext,
  sms: TestSms,
  token = sms.adminToken,
): Promise<ConsolePage> {
  return new ConsolePage(await open(test, `${sms.sms.http}/console/`)).signIn(token);
}
