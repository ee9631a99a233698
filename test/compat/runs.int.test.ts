import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { AUDIT_KEY } from '../../scripts/compat/recorded-node.ts';
import { FileJournals } from '../../src/node/run-journals.ts';
import { EmbeddedQueue } from '../../src/server/queue/embedded/embedded-queue.ts';
import type { RunRecord } from '../../src/server/records/run.ts';
import { decide } from '../agent/approvals/asking-node.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { copiedFixture } from './copied-fixture.ts';
import { startedNode } from './started-node.ts';

afterEach(stopAll);

const KEEP_MS = 200 * 366 * 24 * 3_600_000;
const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());

/** Task and status of the runs in the fixture, in the order of their submission. */
const recorded = [
  ...['payer cancelled', 'payer succeeded', 'payer succeeded', 'hello succeeded', 'exit failed', 'spin dead'],
  ...['hello cancelled', 'payer parked', 'payer parked', 'echo parked', 'sleep parked'],
  ...['spin running', 'hello queued'],
];

const byTask = (runs: readonly RunRecord[]) => [...runs].reverse().map(({ task, status }) => `${task} ${status}`);

/** A program on the PATH that pays invoices, as the registry of the fixture has it. Returns where it writes payments. */
function installBank(folder: string): string {
  const [bin, ledger] = [join(folder, 'bin'), join(folder, 'ledger.jsonl')];
  const server = fileURLToPath(new URL('../../fixtures/mcp-servers/payments.mjs', import.meta.url));
  mkdirSync(bin);
  const script = `#!/bin/sh\nLEDGER='${ledger}' exec '${process.execPath}' '${server}'\n`;
  writeFileSync(join(bin, 'compat-bank'), script, { mode: 0o755 });
  process.env.PATH = `${bin}${delimiter}${process.env.PATH}`;
  return ledger;
}

describe('the queue of a node', () => {
  it('is opened with queued, parked and ended runs [compat.runs]', async () => {
    const folder = copiedFixture('node');
    const queue = new EmbeddedQueue(join(folder, 'data/runs.db'), { maxQueued: 10 });
    const { runs } = await queue.list('default', { limit: 100 });
    // A run that was interrupted waits for its next attempt.
    expect(byTask(runs)).toEqual(recorded.map((run) => run.replace('running', 'queued')));
    const [first, , , hello, failed, dead] = [...runs].reverse() as [RunRecord, RunRecord, ...RunRecord[]];
    expect(first).toMatchObject({ exit: { reason: 'cancelled' }, attempts: 1 });
    expect(hello).toMatchObject({ exit: { reason: 'exit', code: 0 }, input_bytes: 8, submitted_by: 'local:admin' });
    expect(failed).toMatchObject({ exit: { reason: 'exit', code: 3 } });
    expect(dead).toMatchObject({ exit: { reason: 'lost' }, max_attempts: 1 });
    expect(text(await queue.input(hello?.id ?? ''))).toBe('an input');
    expect(text(await queue.result(hello?.id ?? ''))).toBe('hello from C\n');
    const waits = (await queue.parked('default', null, 10)).runs.map(({ until }) => until.kind);
    expect(waits).toEqual(['approval', 'approval', 'stream', 'time']);
    const { submitted_at_ms: at } = first;
    expect(await queue.spent('task default/payer', new Date(at).toISOString().slice(0, 10))).toBe(105);
    await queue.close();
  });

  it('has a journal that can be shown for every run that began [compat.runs] [compat.journals]', async () => {
    const folder = copiedFixture('node');
    const queue = new EmbeddedQueue(join(folder, 'data/runs.db'), { maxQueued: 10 });
    const journals = new FileJournals(join(folder, 'data/journals'));
    const { runs } = await queue.list('default', { limit: 100 });
    const begun = runs.filter(({ started_at_ms: at }) => at !== null);
    expect(begun).toHaveLength(11);
    for (const { id, status } of begun) {
      const { entries } = await journals.timeline('default', id);
      expect(entries.length, `${id} ${status}`).toBeGreaterThan(0);
    }
    await queue.close();
  });
});

describe('the folder of a node and its registry', () => {
  it('are opened: runs are listed, and parked runs are resumed [compat.runs]', async () => {
    const [registry, folder] = [copiedFixture('registry'), copiedFixture('node')];
    const ledger = installBank(folder);
    const payments = () =>
      existsSync(ledger)
        ? readFileSync(ledger, 'utf8')
            .trim()
            .split('\n')
            .map((line) => (JSON.parse(line) as { readonly run: string }).run)
        : [];
    const sms = await startTestSms({ limit: { approval_keep_ms: KEEP_MS } }, join(registry, 'registry.db'));
    const token = readFileSync(join(registry, 'ann.token'), 'utf8').trim();
    const from = { address: sms.sms.grpc, token: sms.nodeToken, tokenFile: undefined, ca: undefined };
    const node = await startedNode(folder, { registry: { directory: undefined, sms: from } }, { AUDIT_KEY });

    const runs = [...(await node.runs())].reverse();
    expect(runs.map(({ task }) => task)).toEqual(recorded.map((run) => run.split(' ')[0]));
    expect(byTask([...runs].reverse()).slice(0, 7)).toEqual(recorded.slice(0, 7));
    const [waiting = '', granted = '', stream = '', sleeping = '', interrupted = '', queued = ''] = runs
      .slice(7)
      .map(({ id }) => id);

    await node.until(queued, 'succeeded');
    expect(await node.read(queued, 'result')).toBe('hello from C\n');
    await node.until(interrupted, 'dead');
    await node.until(granted, 'succeeded');
    expect(await node.read(granted, 'result')).toContain('all settled');
    expect(payments()).toEqual([granted]);

    expect(await node.until(waiting, 'parked')).toMatchObject({ parked_for: { kind: 'approval' } });
    const { parked_for: until } = runs[7] as RunRecord;
    const request = until?.kind === 'approval' ? until.request : '';
    expect((await decide(sms, request, 'allow_once', { token })).status).toBe(200);
    await node.until(waiting, 'succeeded');
    expect(payments()).toEqual([granted, waiting]);

    expect(await node.talk(stream, 'hello')).toBe('HELLO');
    await node.until(stream, 'succeeded');
    expect(await node.read(stream, 'result')).toBe('1 frames\n');
    await node.until(sleeping, 'succeeded');
    expect(await node.read(sleeping, 'result')).toBe('before the sleep\nusleep ok\nsleep_ms ok\n');
    expect(await node.read(sleeping, 'journal')).toContain('"t":"resumed"');
  });
});
