import type { Route } from 'playwright-core';
import { afterEach, expect, it } from 'vitest';
import { SteeredModel } from '../e2e/steered-model.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { useBrowser } from '../support/browser.ts';
import { ConsolePage } from './console-page.ts';
import { notes, register, startNode, toolsSeen } from './running-node.ts';

const open = useBrowser();
/** For a machine that is busy with other things. */
const SLOWEST_MS = 180_000;
const model = new SteeredModel();

afterEach(async () => {
  await model.stop();
  await stopAll();
});

/** What a server, a model or a person would write to do harm; unseen characters by their numbers. */
const markup =
  '"><img src=x onerror=hacked=1><script>hacked=1</script><a href="javascript:hacked=1">hacked</a><style>*{display:none}</style>';
const unseen = String.fromCodePoint(0x202e, 0x2066, 0x200b, 0x07, 0x1b, 0xfeff, 0x2028);
const hostile = `${markup}${unseen}`;
const large = hostile + 'A'.repeat(1024 * 1024);
/** In these the text is as long as a megabyte. */
const longFields: ReadonlySet<string> = new Set(['description', 'last_error', 'text', 'detail', 'reason', 'target']);
/** The page goes on by these: what is not one of them is another case, and the others would never be seen. */
const kept: ReadonlySet<string> = new Set(['status', 'verdict', 'boot', 'at', 'older', 'newest', 'may', 'namespace']);

/** The same answer with something hostile in every text of it, names of fields of others included. */
function poisoned(value: unknown, name: string): unknown {
  if (typeof value === 'string') return kept.has(name) ? value : longFields.has(name) ? large : `${value}${hostile}`;
  if (Array.isArray(value)) return kept.has(name) ? value : value.map((item) => poisoned(item, name));
  if (typeof value !== 'object' || value === null) return value;
  const isFree = ['arguments', 'definition', 'env', 'pins', 'per_tool'].includes(name);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [isFree ? `${key}${hostile}` : key, poisoned(item, key)]),
  );
}

const poison = async (route: Route) => {
  const response = await route.fetch();
  const type = response.headers()['content-type'] ?? '';
  if (!type.includes('json')) return route.fulfill({ response });
  await route.fulfill({ response, json: poisoned(await response.json(), '') });
};

it(
  'shows hostile text in every field of every answer as text, and does nothing that it says [console.hostile]',
  async (test) => {
    const sms = await startTestSms();
    await register(sms, { ...notes, approval_policy: { default: 'always' }, pins: { read_text_file: 'a'.repeat(64) } });
    await sms.http('POST', '/admin/api/mcp/profiles', { json: { name: 'reading', server_ids: ['notes'] } });
    await sms.http('POST', '/admin/api/tokens', { json: { name: 'ana', roles: ['viewer'] } });
    await startNode(sms, model, ['--approve', 'sms']);
    (await model.next()).call('notes_list_directory', { path: '.' });
    await toolsSeen(sms, 'notes');
    const console = new ConsolePage(await open(test, `${sms.sms.http}/console/`));
    const { page } = console;
    await page.route(/\/admin\/api\/(?!live)/, poison);
    await console.signIn(sms.adminToken);
    page.on('dialog', () => expect.unreachable('a dialog was opened'));
    const waiting = async () =>
      (await sms.http('GET', '/admin/api/approvals?status=waiting')).body.approvals as { approval_id: string }[];
    await expect.poll(waiting).toHaveLength(1);
    const [{ approval_id: approval } = { approval_id: '' }] = await waiting();

    const harmless = async () => {
      const found = (await page.evaluate(`({
      hacked: typeof hacked,
      elements: document.querySelectorAll('main img, main script, main style, a[href^="javascript:"]').length,
      text: document.body.innerText.length,
      unseen: /[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\u0007\\u001b\\ufeff\\u2028]/.test(document.body.innerText),
      titles: [...document.querySelectorAll('[title],[aria-label]')].filter((e) =>
        /[\\u202a-\\u202e\\u2066-\\u2069]/.test((e.title || '') + (e.ariaLabel || ''))).length,
      wide: document.documentElement.scrollWidth > innerWidth + 1,
    })`)) as { text: number };
      expect(found).toEqual({
        hacked: 'undefined',
        elements: 0,
        text: found.text,
        unseen: false,
        titles: 0,
        wide: false,
      });
      expect(found.text).toBeLessThan(60_000);
    };

    for (const [path, heading] of [
      ['overview', 'Overview'],
      ['runs', 'Runs'],
      ['servers', 'Servers'],
      ['servers/notes', 'notes'],
      ['servers/notes/edit', 'Edit notes'],
      ['profiles', 'Profiles'],
      ['nodes', 'Nodes'],
      ['people', 'Users'],
      ['audit', 'Audit log'],
      ['approvals', 'Approvals'],
      [`approvals/${approval}`, 'Approval'],
    ] as const) {
      await console.go(path, heading);
      // Of the editor it is the values of fields that are hostile.
      const shown = path.endsWith('edit') ? page.getByLabel('Name') : page.getByText(/hacked/).first();
      await shown.waitFor({ state: 'attached' }).catch(() => expect.unreachable(`nothing is shown at ${path}`));
      for (const summary of await page.locator('summary').all()) await summary.click();
      await harmless();
      expect(console.complaints()).toEqual([]);
    }
    await console.picture('hostile-approval');
    await console.go('audit', 'Audit log');
    await page
      .getByRole('button', { name: /hacked/ })
      .first()
      .click();
    await harmless();
    await console.go('access', 'Access');
    const config = { 'mcp.enabled': true, 'mcp.default_server_ids': ['notes'], 'mcp.tool_denylist': ['*<b>*'] };
    await page.getByLabel('Task configs').fill(JSON.stringify({ name: hostile.slice(0, 90), config }));
    await page.getByRole('button', { name: 'Show access' }).click();
    await page.getByRole('row', { name: /notes/ }).waitFor();
    await harmless();
    await console.expectClean();
    await console.picture('hostile-access');
  },
  SLOWEST_MS,
);
