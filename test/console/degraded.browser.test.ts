import { afterEach, expect, it } from 'vitest';
import type { RunReport, ServerReport } from '../../src/registry-client/node-report.ts';
import { startTestSms, stopAll, type TestSms } from '../registry/running-sms.ts';
import { useBrowser } from '../support/browser.ts';
import { type ConsolePage, openConsole } from './console-page.ts';
import { notes, register } from './running-node.ts';

const open = useBrowser();
const SLOWEST_MS = 180_000;
const unseen = String.fromCodePoint(0x202e, 0x200b, 0x1b);
const markup = '<img src=x onerror=hacked=1><script>hacked=1</script>';
/** What a server may answer to tools/list. */
const hostile = `tools/list failed: ${markup}${unseen}`;
const { signal } = new AbortController();

afterEach(stopAll);

const run = (id: string, degraded: RunReport['degraded']): RunReport => ({
  ...{ id, namespace: 'default', task: id, revision: 1, status: 'succeeded', submitted_by: 'ann', attempts: 1 },
  ...{ submitted_at_ms: 1_000, started_at_ms: 2_000, ended_at_ms: 3_000, status_reason: null, degraded },
  exit: { reason: 'exit', code: 0, message: null },
  cost: { model_calls: 1, tool_calls: 0, total_tokens: 5 },
});

/** A node with this one server. */
const report = (sms: TestSms, health: ServerReport['health'], lastError: string | null) =>
  sms.source().report(
    {
      ...{ nodeId: 'machine:n1', registryState: 'ready', epoch: '', snapshotRevision: 1 },
      servers: [{ serverId: 'notes', health, lastError, toolCount: 3, reconnects: 0 }],
    },
    signal,
  );

async function expectHarmless({ page }: ConsolePage): Promise<void> {
  const found = await page.evaluate(`({
    hacked: typeof hacked,
    elements: document.querySelectorAll('main img, main script').length,
    unseen: /[\\u202e\\u200b\\u001b]/.test(document.body.innerText),
    titles: [...document.querySelectorAll('[title]')].filter(({ title }) => /[\\u202e\\u200b\\u001b]/.test(title)).length,
  })`);
  expect(found).toEqual({ hacked: 'undefined', elements: 0, unseen: false, titles: 0 });
}

it(
  'a degraded run has its mark and its reason, as text, in the list and on its page [console.degraded]',
  async (test) => {
    const sms = await startTestSms();
    const runs = [run('lacking', [{ server: 'mute', reason: hostile }]), run('whole', null)];
    await sms.source().reportRuns({ nodeId: 'machine:n1', runs, timelines: [] }, signal);
    const console = await openConsole(open, test, sms);
    const { page } = console;
    await console.go('runs', 'Runs');
    const rowOf = (id: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name: id }) });
    const lacking = rowOf('lacking');
    await lacking.waitFor();
    expect(await lacking.textContent()).toContain('degraded: no tools of server mute: tools/list failed: <img');
    const mark = lacking.locator('span.muted[title]').filter({ hasText: 'degraded' });
    expect(await mark.getAttribute('title')).toContain(`no tools of server mute: tools/list failed: ${markup}`);
    const whole = rowOf('whole');
    await whole.waitFor();
    expect(await whole.textContent()).not.toContain('degraded');
    await expectHarmless(console);
    await console.expectClean();
    await console.picture('degraded-runs');

    await lacking.getByRole('link', { name: 'lacking' }).click();
    await page.getByRole('heading', { level: 1, name: 'lacking', exact: true }).waitFor();
    await page.getByText(`no tools of server mute: tools/list failed: ${markup}`).waitFor();
    await page
      .getByRole('term')
      .filter({ hasText: /^Degraded$/ })
      .waitFor();
    await expectHarmless(console);
    await console.expectClean();
    await console.go('runs/whole', 'whole');
    expect(
      await page
        .getByRole('term')
        .filter({ hasText: /^Degraded$/ })
        .count(),
    ).toBe(0);
  },
  SLOWEST_MS,
);

it(
  'the overview reports no server as responding while its last error stands, whatever its state [console.degraded]',
  async (test) => {
    const sms = await startTestSms();
    await register(sms, notes);
    const console = await openConsole(open, test, sms);
    const { page } = console;
    const allRespond = page.getByText('All servers in use are responding.');
    const failing = page.getByRole('link', { name: /^Failing/ });
    const error = page.getByText(`tools/list failed: ${markup}`);
    await console.go('overview', 'Overview');
    await report(sms, 'connected', null);
    await allRespond.waitFor();
    expect(await failing.textContent()).toContain('no failing servers');

    // A server that failed and is idle since: nothing uses it, and nothing says that it works again.
    for (const health of ['idle', 'degraded', 'down'] as const) {
      await report(sms, health, hostile);
      await error.waitFor();
      const noted = health === 'idle' ? '1 error since the last tool list' : `1 ${health}`;
      await page.getByRole('link', { name: new RegExp(`^Failing .*${noted}`) }).waitFor();
      expect(await allRespond.count()).toBe(0);
      expect(await failing.textContent()).not.toContain('no failing servers');
      await expectHarmless(console);
      await console.expectClean();
    }
    await report(sms, 'connected', null);
    await allRespond.waitFor();
    expect(await error.count()).toBe(0);
  },
  SLOWEST_MS,
);
