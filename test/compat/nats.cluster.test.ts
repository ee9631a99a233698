import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { JOURNAL_KEY, LARGE_INPUT } from '../../scripts/compat/recorded-node.ts';
import type { Cluster } from '../../scripts/engines/member.ts';
import { startNats } from '../../scripts/engines/nats-cluster.ts';
import { natsServer } from '../../scripts/engines/nats-server.ts';
import { ClusterJournals } from '../../src/node/cluster-journals.ts';
import type { RunRecord } from '../../src/server/records/run.ts';
import { Secret } from '../../src/server/secrets/secret.ts';
import { openQueue } from '../server/queue/nats-clusters.ts';
import { needsEngine, skipIfMissing } from '../support/needs.ts';
import { copiedFixture } from './copied-fixture.ts';
import { startedNode } from './started-node.ts';

skipIfMissing(needsEngine(natsServer));

/** Task and status of the runs in the fixture, in the order of their submission. */
const recorded = [
  ...['hello succeeded', 'exit failed', 'echo cancelled', 'spin dead'],
  ...['echo parked', 'sleep parked', 'spin running', 'hello queued'],
];

/** A nats-server on a copy of the recorded store. */
async function recordedNats(folder: string): Promise<Cluster> {
  const nats = await startNats({ members: 1, store: join(folder, 'store') });
  onTestFinished(() => nats.stop());
  return nats;
}

const inOrder = (runs: readonly RunRecord[]) => [...runs].reverse();

it('opens a JetStream store with queued, running, parked and ended runs [compat.nats]', async () => {
  const queue = await openQueue(await recordedNats(copiedFixture('nats')), 1_000, 2_000, 1);
  const runs = inOrder((await queue.list('default', { limit: 100 })).runs);
  expect(runs.map(({ task, status }) => `${task} ${status}`)).toEqual(recorded);
  const [hello, failed, cancelled, dead] = runs;
  expect(hello).toMatchObject({ exit: { reason: 'exit', code: 0 }, input_bytes: 8, attempts: 1 });
  expect(failed).toMatchObject({ exit: { reason: 'exit', code: 3 } });
  expect(cancelled).toMatchObject({ exit: { reason: 'cancelled' } });
  expect(dead).toMatchObject({ exit: { reason: 'lost' }, max_attempts: 1 });
  const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());
  expect(text(await queue.input(hello?.id ?? ''))).toBe('an input');
  expect(text(await queue.result(hello?.id ?? ''))).toBe('hello from C\n');
  expect(text(await queue.input(runs.at(-1)?.id ?? ''))).toBe(LARGE_INPUT);
  const parked = (await queue.parked('default', null, 10)).runs;
  expect(parked.map(({ until }) => until.kind).sort()).toEqual(['stream', 'time']);
  const journals = new ClusterJournals(queue, new Secret(JOURNAL_KEY));
  for (const { id, started_at_ms: at } of runs) {
    if (at === null) continue;
    expect((await journals.timeline('default', id)).entries.length, id).toBeGreaterThan(0);
  }
  await queue.close();
});

it('resumes parked runs of a JetStream store, with encrypted journals [compat.nats] [compat.journals]', async () => {
  const folder = copiedFixture('nats');
  const address = (await recordedNats(folder)).members[0]?.address;
  const node = await startedNode(join(folder, 'node'), { queue: `nats://${address}` }, { JOURNAL_KEY });
  const runs = inOrder(await node.runs());
  const [stream = '', sleeping = '', interrupted = '', queued = ''] = runs.slice(4).map(({ id }) => id);
  await node.until(queued, 'succeeded');
  expect(await node.read(queued, 'result')).toBe('hello from C\n');
  await node.until(interrupted, 'dead');
  expect(await node.talk(stream, 'hello')).toBe('HELLO');
  await node.until(stream, 'succeeded');
  expect(await node.read(stream, 'result')).toBe('1 frames\n');
  await node.until(sleeping, 'succeeded');
  expect(await node.read(sleeping, 'result')).toBe('before the sleep\nusleep ok\nsleep_ms ok\n');
});
