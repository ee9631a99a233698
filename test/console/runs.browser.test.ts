import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { RunJson } from '../../src/registry/console-api.ts';
import { fixture } from '../agent/mcp/client/pool-records.ts';
import { onStop, startTestSms, stopAll, type TestSms } from '../registry/running-sms.ts';
import { createToken } from '../server/identity/token-calls.ts';
import { useBrowser } from '../support/browser.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';
import { ConsolePage, openConsole } from './console-page.ts';
import { register } from './running-node.ts';

const open = useBrowser();
/** For a machine that is busy with other things. */
const SLOWEST_MS = 180_000;
const unseen = String.fromCodePoint(0x202e, 0x200b);
const hostile = `<img src=x onerror=hacked=1><script>hacked=1</script>${unseen}`;

afterEach(stopAll);

/** A node of the registry, whose agent calls a tool three times, and writes what somebody hostile would. */
async function startNode(sms: TestSms): Promise<NodeLives> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-console-runs-'));
  onStop(() => rmSync(folder, { recursive: true, force: true }));
  const tokenFile = join(folder, 'node.token');
  writeFileSync(tokenFile, sms.nodeToken, { mode: 0o600 });
  writeNodeFolder(folder, { says: hostile });
  await register(sms, {
    server_id: 'ledger',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [fixture('ledger.mjs')], env: { TRAIL: join(folder, 'trail') } },
    allowed_tools: ['*'],
  });
  const fromSms = ['--sms', sms.sms.grpc, '--sms-token-file', tokenFile];
  const node = new NodeLives(folder, fromSms, ['--task-dir', join(folder, 'tasks.d')]);
  await node.start();
  onStop(() => node.kill());
  return node;
}

const runsOf = async (sms: TestSms) => (await sms.http('GET', '/admin/api/runs')).body.runs as RunJson[];

it(
  'the runs of a node are listed live, and one shows what it did as a waterfall [console.runs]',
  async (test) => {
    const sms = await startTestSms();
    const console = await openConsole(open, test, sms);
    const { page } = console;
    await console.go('runs', 'Runs');
    await page.getByRole('heading', { name: 'No runs reported recently' }).waitFor();
    await console.expectClean();
    const node = await startNode(sms);
    const run = async (task: string) => {
      const wait = { body: 'x', headers: { prefer: 'wait=60' } };
      const answer = await node.ask('POST', `/v1/namespaces/default/tasks/${task}/runs`, wait);
      expect(answer.status, answer.text).toBe(200);
      return answer.headers.get('spear-run') ?? '';
    };
    const id = await run('agent');
    await run('hello');

    await page.getByRole('row', { name: /succeeded agent .*admin .*45 tokens 3 model calls, 3 tool calls/ }).waitFor();
    await page.getByRole('row', { name: /succeeded hello/ }).waitFor();
    await console.expectClean();
    await page.emulateMedia({ colorScheme: 'dark' });
    await console.expectClean(['color-contrast']);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.getByLabel('Filter by status').selectOption('parked');
    await page.getByText('0 runs, 0 tokens').waitFor();
    await page.getByLabel('Filter by status').selectOption('');
    await page.getByLabel('Search runs').fill('agent');
    await page.getByText('1 run, 45 tokens').waitFor();
    await console.picture('runs');
    await page.getByRole('link', { name: 'agent' }).click();

    await page.getByRole('heading', { level: 1, name: 'agent', exact: true }).waitFor();
    await page.getByText(id, { exact: true }).waitFor();
    const timeline = page.getByRole('region', { name: 'Timeline' });
    await timeline.waitFor();
    const kinds = await timeline.locator('li .kind').allInnerTexts();
    expect(kinds.filter((kind) => kind === 'model')).toHaveLength(3);
    expect(kinds.filter((kind) => kind === 'tool')).toHaveLength(3);
    expect(await timeline.locator('li svg rect').count()).toBe(kinds.length);
    await timeline.getByText('work', { exact: false }).first().waitFor();
    await console.expectClean();
    await console.picture('run');
    await page.setViewportSize({ width: 390, height: 780 });
    await console.expectClean(['color-contrast']);
    await page.setViewportSize({ width: 1280, height: 720 });
    // What the model wrote is text, and nothing in it is unseen.
    for (const summary of await timeline.locator('summary').all()) await summary.click();
    expect(await timeline.textContent()).toContain('<img src=x onerror=hacked=1>');
    const found = await page.evaluate(`({
      hacked: typeof hacked,
      elements: document.querySelectorAll('main img, main script').length,
      unseen: /[\\u202e\\u200b]/.test(document.body.innerText),
    })`);
    expect(found).toEqual({ hacked: 'undefined', elements: 0, unseen: false });
    expect(console.complaints()).toEqual([]);

    await timeline.getByLabel('tool').uncheck();
    expect(await timeline.locator('li .kind').allInnerTexts()).not.toContain('tool');
  },
  SLOWEST_MS,
);

it(
  'a viewer sees runs of their namespace, and no timeline [console.runs]',
  async (test) => {
    const sms = await startTestSms();
    const node = await startNode(sms);
    await node.ask('POST', '/v1/namespaces/default/tasks/hello/runs', { body: 'x', headers: { prefer: 'wait=60' } });
    await expect.poll(async () => (await runsOf(sms)).length).toBe(1);
    const [{ id } = { id: '' }] = await runsOf(sms);
    const token = await createToken(sms, { name: 'ann', roles: ['viewer'], namespace: 'default' });
    const console = await openConsole(open, test, sms, token);
    await console.go(`runs/${id}`, 'hello');
    await console.page.getByText('You need the journals permission').waitFor();
    await console.expectClean();
    await console.go('overview', 'Overview');
    const other = await createToken(sms, { name: 'bob', roles: ['viewer'], namespace: 'team-b' });
    expect((await sms.http('GET', '/admin/api/runs', { token: other })).body).toMatchObject({ runs: [], total: 0 });
  },
  SLOWEST_MS,
);

it(
  'an address that changes while the console renders is opened [console.pages]',
  async (test) => {
    const sms = await startTestSms();
    const console = new ConsolePage(await open(test, `${sms.sms.http}/console/`));
    // Before any effect of the page runs: it runs them after the browser has painted.
    await console.page.evaluate(`
      new MutationObserver((_, observer) => {
        if (document.querySelector('nav') === null) return;
        observer.disconnect();
        location.hash = '#/audit';
      }).observe(document.body, { childList: true, subtree: true });
    `);
    await console.signIn(sms.adminToken);
    await console.page.getByRole('heading', { level: 1, name: 'Audit log', exact: true }).waitFor();
  },
  SLOWEST_MS,
);
