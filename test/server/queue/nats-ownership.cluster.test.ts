import { setTimeout as delay } from 'node:timers/promises';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BlockCipher, journalKey } from '../../../src/runtime/durable/blocks.ts';
import { blocksIn } from '../../../src/runtime/durable/read-journal.ts';
import { SubjectJournal } from '../../../src/server/queue/nats/journal-writer.ts';
import { NatsJournals, toHeaders } from '../../../src/server/queue/nats/nats-journals.ts';
import type { NatsQueue } from '../../../src/server/queue/nats/nats-queue.ts';
import type { OwnedRun } from '../../../src/server/queue/nats/owned-run.ts';
import type { RunMirror } from '../../../src/server/queue/nats/run-mirror.ts';
import { journalSubject, RUNS_BUCKET } from '../../../src/server/queue/nats/streams.ts';
import type { Claim } from '../../../src/server/queue/run-queue.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { clearStreams, LEASE_MS, nextClaim, openQueue, SHORT_LEASE_MS } from './nats-clusters.ts';
import { newRun, success } from './queue-contract.ts';

const cluster = useNats();
const open: NatsQueue[] = [];
const queueOf = async (leaseMs = LEASE_MS) => {
  const queue = await openQueue(cluster(), 1_000, leaseMs);
  open.push(queue);
  return queue;
};
const ownedBy = (queue: NatsQueue, claim: Claim) => queue.owned(claim) as OwnedRun;
/** Where a test looks at what is asked, or holds it up. */
const connectionOf = (queue: NatsQueue) => (queue as unknown as { nc: NatsConnection }).nc;
const header = { t: 'header', format: 1, abi: [1, 1] };
const neverFull = { maxBytes: 1_000_000, cipher: null, onFull: () => {} };
const text = (bytes: Uint8Array | null) => new TextDecoder().decode(bytes ?? undefined);

beforeEach(() => clearStreams(cluster()));
afterEach(async () => {
  for (const queue of open.splice(0)) await queue.close();
});

describe('a run on NATS', () => {
  it('that another node has taken is lost at the next append, and nothing of it is written', async () => {
    const [first, second] = [await queueOf(SHORT_LEASE_MS), await queueOf(SHORT_LEASE_MS)];
    await first.submit(newRun('r1'));
    const zombie = await nextClaim(first);
    const writer = new SubjectJournal(ownedBy(first, zombie), neverFull, null);
    writer.append('{"t":"guest","e":"of the first"}');
    await writer.written();
    await delay(SHORT_LEASE_MS + 100); // as if it had been paused
    const heir = await nextClaim(second, 'n2');
    expect(heir).toMatchObject({ attempt: 2, run: { node: 'n2' } });
    writer.append('{"t":"guest","e":"of a zombie"}');
    await expect(writer.written()).rejects.toThrow('another node has claimed the run');
    expect(zombie.lost?.aborted).toBe(true);
    expect(await first.finish(zombie, success('of a zombie'))).toBe(false);
    expect(await second.finish(heir, success('of the heir'))).toBe(true);
    const journal = text(await new NatsJournals(second.parts).read('default', 'r1'));
    expect(journal).toContain('of the first');
    expect(journal).not.toContain('zombie');
    expect(text(await first.result('r1'))).toBe('of the heir');
  });

  it.each([
    ['released', (queue: NatsQueue, claim: Claim) => queue.release(claim, { counts: false })],
    ['parked', (queue: NatsQueue, claim: Claim) => queue.park(claim, { kind: 'stream' })],
  ] as const)('that is %s again after NATS did not answer keeps the number of its attempts', async (_, leave) => {
    const queue = await queueOf();
    await queue.submit(newRun('r1'));
    const claim = await nextClaim(queue);
    const change = vi.spyOn(queue as unknown as { change: () => Promise<unknown> }, 'change');
    await queue.mark(claim, { status: 'running' });
    change.mockRejectedValueOnce(new Error('no response'));
    await expect(leave(queue, claim)).rejects.toThrow('no response');
    expect(await leave(queue, claim)).toBe(true);
    expect(await queue.find('r1')).toMatchObject({ attempts: 0 });
  });

  it('whose journal has a forged number of attempts is claimed and found [cluster.forged-entries]', async () => {
    const queue = await queueOf();
    const forged = { kind: 'released', claim: 'x', ordinal: 1, attempt: Number.NaN, object: null } as const;
    await queue.submit(newRun('r1'));
    await queue.release(await nextClaim(queue), { counts: true });
    await jetstream(connectionOf(queue)).publish(journalSubject('default', 'r1'), '', { headers: toHeaders(forged) });
    const claim = await nextClaim(queue);
    expect(await queue.mark(claim, { status: 'waiting' })).toBe(true);
    expect(await queue.find('r1')).toMatchObject({ status: 'waiting', attempts: 1 });
  });

  it('whose entry was replaced by something else is not found, at once [cluster.forged-entries]', async () => {
    const queue = await queueOf();
    await queue.submit(newRun('r1'));
    // As if this node had written more than the entry that is there.
    const { mirror } = queue as unknown as { mirror: RunMirror };
    vi.spyOn(mirror, 'revisionOf').mockImplementation(() => 2);
    await connectionOf(queue).request(`$KV.${RUNS_BUCKET}.r1`, '{"run":{}}');
    const late = delay(5_000, 'late', { ref: false });
    expect(await Promise.race([queue.find('r1'), late])).toBeNull();
  });

  it('continues after the acknowledgement of an append was lost', async () => {
    const queue = await queueOf();
    await queue.submit(newRun('r1'));
    const claim = await nextClaim(queue);
    const owned = ownedBy(queue, claim);
    // What it is about to append stands there already: its second message.
    const mark = toHeaders({ kind: 'block', claim: owned.token, ordinal: 2, attempt: 1, object: null });
    await queue.parts.js.publish(owned.subject, 'a block', { headers: mark });
    expect(await owned.append('block', 'a block')).toBe(true);
    expect(await owned.append('block', ', and another')).toBe(true);
    expect(text(await new NatsJournals(queue.parts).read('default', 'r1'))).toBe('a block, and another');
  });

  it('that is finished in its journal is completed by the next node that receives it, and not run again', async () => {
    const [first, second] = [await queueOf(SHORT_LEASE_MS), await queueOf(SHORT_LEASE_MS)];
    await first.submit(newRun('r1'));
    const claim = await nextClaim(first);
    const { status, exit, cost } = success('');
    const result = { inline: Buffer.from('as it was').toString('base64') };
    const finished = { status, exit, cost, result, result_bytes: 9, ended_at_ms: Date.now() };
    expect(await ownedBy(first, claim).append('finished', JSON.stringify(finished))).toBe(true);
    // The first one dies here.
    const ended = new Promise<void>((resolve) => {
      second.onChange(({ status: now }) => now === 'succeeded' && resolve());
    });
    const taking = setInterval(() => void second.claim('n2', 'default', 1, LEASE_MS, () => true), 100);
    await ended;
    clearInterval(taking);
    expect(await second.get('default', 'r1')).toMatchObject({ status: 'succeeded', attempts: 1, result_bytes: 9 });
    expect(text(await second.result('r1'))).toBe('as it was');
  });

  it('has a journal of the same bytes as a file, encrypted too, also where a block is larger than a message', async () => {
    const queue = await queueOf();
    const journals = new NatsJournals(queue.parts);
    const key = journalKey('a key of sixteen characters');
    for (const [id, cipher] of [
      ['plain', null],
      ['sealed', new BlockCipher(key)],
    ] as const) {
      await queue.submit(newRun(id));
      const claim = await nextClaim(queue);
      const writer = new SubjectJournal(ownedBy(queue, claim), { ...neverFull, maxBytes: 10_000_000, cipher }, null);
      const large = 'x'.repeat(2_000_000);
      writer.append(JSON.stringify(header));
      writer.append(JSON.stringify({ t: 'guest', e: large, ms: 1 }));
      await writer.written();
      writer.close(JSON.stringify({ t: 'end', reason: 'exit', exit: 0, message: null, ms: 2 }));
      await ownedBy(queue, claim).settled();
      const bytes = await journals.read('default', id);
      const { blocks, encrypted } = blocksIn(id, Buffer.from(bytes ?? []));
      expect(encrypted?.key).toBe(cipher === null ? undefined : key.id);
      const lines = blocks.flatMap(({ lines: of, previous }) => cipher?.open(JSON.parse(of[0] ?? ''), previous) ?? of);
      const records = lines.map((line) => JSON.parse(line) as { t: string; e?: string }).slice(-3);
      expect(records).toMatchObject([{ t: 'header' }, { t: 'guest', e: large }, { t: 'end', reason: 'exit' }]);
      await journals.remove('default', id);
      expect(await journals.read('default', id)).toBeNull();
    }
  });

  it('ends with its reason where its journal has no more room', async () => {
    const queue = await queueOf();
    await queue.submit(newRun('r1'));
    const claim = await nextClaim(queue);
    const why: string[] = [];
    const options = { maxBytes: 500, cipher: null, onFull: ({ message }: Error) => why.push(message) };
    const writer = new SubjectJournal(ownedBy(queue, claim), options, null);
    writer.append(JSON.stringify({ t: 'guest', e: 'y'.repeat(1_000) }));
    await expect(writer.written()).rejects.toThrow('could not be written');
    expect(why).toEqual([expect.stringContaining('limits.journal_bytes = 500')]);
  });

  it('that is lost too often is published to the stream of dead runs', async () => {
    const queue = await queueOf();
    await queue.submit(newRun('r1', { namespace: 'team-a' }));
    const claim = await nextClaim(queue);
    const exit = { reason: 'lost', code: null, message: '3 attempts were lost' };
    expect(await queue.finish(claim, { ...success(''), status: 'dead', exit })).toBe(true);
    const message = await queue.parts.jsm.streams.getMessage('SPEAR_DEAD', { last_by_subj: 'spear.team-a.dead.r1' });
    expect(message?.json()).toMatchObject({ run: { id: 'r1', namespace: 'team-a' }, exit: { reason: 'lost' } });
    // A server removes what was acknowledged a moment after it said so.
    await expect.poll(async () => (await queue.parts.jsm.streams.info('SPEAR_RUNS')).state.messages).toBe(0);
  });
});

describe('a run on NATS that is new', () => {
  it('takes five requests from submission to result, all of them writes', async () => {
    const queue = await queueOf();
    await queue.claim('n1', 'default', 1, LEASE_MS, () => true);
    const asked: string[] = [];
    const nc = connectionOf(queue);
    const request = nc.request.bind(nc);
    nc.request = (subject, ...rest) => {
      asked.push(subject);
      return request(subject, ...rest);
    };
    await queue.submit(newRun('r1'));
    const claim = await nextClaim(queue);
    expect(text(await claim.input())).toBe('input of r1');
    await queue.finish(claim, success('done'));
    expect(text(await queue.result('r1'))).toBe('done');
    expect(await queue.get('default', 'r1')).toMatchObject({ status: 'succeeded', node: 'n1', attempts: 1 });
    const [entry, journal] = ['$KV.spear_runs.r1', 'spear.default.journal.r1'];
    expect(asked).toEqual([entry, 'spear.default.run.default.r1', journal, journal, entry]);
  });

  it('has the status running soon, and before its first effect', async () => {
    const [first, second] = [await queueOf(), await queueOf()];
    await first.submit(newRun('soon'));
    await nextClaim(first);
    await expect.poll(() => second.get('default', 'soon')).toMatchObject({ status: 'running', node: 'n1' });
    await first.submit(newRun('acts'));
    const claim = await nextClaim(first);
    const writer = new SubjectJournal(ownedBy(first, claim), neverFull, null);
    writer.append('{"t":"tool.started"}');
    await writer.written();
    expect(await second.get('default', 'acts')).toMatchObject({ status: 'running', node: 'n1' });
  });

  it('that is cancelled before its status was written has no effects [cluster.unmarked]', async () => {
    const [first, second] = [await queueOf(), await queueOf()];
    await first.submit(newRun('r1'));
    const claim = await nextClaim(first);
    expect(await second.cancel('default', 'r1')).toMatchObject({ status: 'cancelled' });
    const writer = new SubjectJournal(ownedBy(first, claim), neverFull, null);
    writer.append('{"t":"tool.started"}');
    await expect(writer.written()).rejects.toThrow('the run was cancelled');
    expect(claim.lost?.aborted).toBe(true);
    expect(await first.finish(claim, success('too late'))).toBe(false);
    expect(await second.get('default', 'r1')).toMatchObject({ status: 'cancelled' });
    await expect.poll(async () => (await first.parts.jsm.streams.info('SPEAR_RUNS')).state.messages).toBe(0);
  });

  it('that ends as it is cancelled ends once', async () => {
    const [first, second] = [await queueOf(), await queueOf()];
    await first.submit(newRun('r1'));
    const claim = await nextClaim(first);
    const [isOwn, cancelled] = await Promise.all([
      first.finish(claim, success('done')),
      second.cancel('default', 'r1'),
    ]);
    const { status } = (await second.get('default', 'r1')) ?? {};
    expect(status).toBe(isOwn ? 'succeeded' : 'cancelled');
    expect(cancelled?.status).toBe(status);
  });

  it.each(['runs', 'parks'] as const)(
    'is not marked by a node that was paused, where it %s elsewhere',
    async (then) => {
      const [first, second] = [await queueOf(SHORT_LEASE_MS), await queueOf(SHORT_LEASE_MS)];
      await first.submit(newRun('r1'));
      const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
      const nc = connectionOf(first);
      const request = nc.request.bind(nc);
      nc.request = async (subject, ...rest) => {
        if (subject === '$KV.spear_runs.r1') await resumed;
        return request(subject, ...rest);
      };
      const zombie = ownedBy(first, await nextClaim(first));
      const heir = await nextClaim(second, 'n2'); // when its lease has ended
      if (then === 'parks') await second.park(heir, { kind: 'time', atMs: Date.now() + 60_000 });
      const before = await second.get('default', 'r1');
      resume();
      expect(await zombie.isMarked()).toBe(false);
      expect(zombie.lost.aborted).toBe(true);
      expect(await second.get('default', 'r1')).toEqual(before);
    },
  );
});

describe('entries on NATS that are removed', () => {
  it('leave no marker and no objects forever [cluster.removed]', async () => {
    const queue = await queueOf();
    await queue.submit(newRun('r1', { input: Buffer.alloc(100_000) }));
    await queue.finish(await nextClaim(queue), success('x'.repeat(100_000)));
    expect(await queue.forget(Date.now() + 1_000)).toMatchObject([{ id: 'r1' }]);
    const { jsm } = queue.parts;
    const left = await jsm.streams.getMessage('KV_spear_runs', { last_by_subj: '$KV.spear_runs.r1' });
    expect(left?.header.get('KV-Operation')).toBe('PURGE');
    expect(left?.header.get('Nats-TTL')).toBe('3600s');
    expect((await jsm.streams.info('OBJ_spear_objects')).state.messages).toBe(0);
  });

  it('are removed by nodes that missed the notification', async () => {
    const [first, second] = [await queueOf(), await queueOf()];
    await first.submit(newRun('r1'));
    await first.finish(await nextClaim(first), success('done'));
    await expect.poll(() => second.facts().byStatus.succeeded).toBe(1);
    await first.parts.jsm.streams.purge('KV_spear_runs', { filter: '$KV.spear_runs.r1' });
    expect(await second.forget(Date.now() + 1_000)).toEqual([]);
    expect(second.facts().byStatus.succeeded).toBe(0);
  });
});

describe('a foreign value in the bucket of runs', () => {
  const foreign = ['not JSON', 'null', '[]', '{}', '{"run":{"id":"f4"}}', '{"run":{"id":"another","status":"queued"}}'];

  it('is ignored: nodes continue and start [cluster.foreign]', async () => {
    const queue = await queueOf();
    const nc = await connect({ servers: cluster().members.map(({ address }) => address) });
    const kv = await new Kvm(jetstream(nc)).open('spear_runs');
    for (const [at, text] of foreign.entries()) await kv.put(`f${at}`, text);
    await nc.close();
    await queue.submit(newRun('r1'));
    expect(await queue.finish(await nextClaim(queue), success('done'))).toBe(true);
    const started = await queueOf();
    for (const each of [queue, started]) {
      expect((await each.list('default', { limit: 10 })).runs.map(({ id }) => id)).toEqual(['r1']);
      for (const at of foreign.keys()) expect(await each.get('default', `f${at}`)).toBeNull();
    }
  });

  it('in place of an entry removes the run', async () => {
    const queue = await queueOf();
    await queue.submit(newRun('r1'));
    await queue.parts.js.publish('$KV.spear_runs.r1', 'not JSON');
    await expect.poll(() => queue.facts().byStatus.queued).toBe(0);
    expect(await queue.get('default', 'r1')).toBeNull();
  });
});

describe('streams on NATS', () => {
  it('that are not as runs need them are refused by name and field [cluster.streams]', async () => {
    const nc = await connect({ servers: cluster().members.map(({ address }) => address) });
    const jsm = await jetstreamManager(nc);
    await jsm.streams.add({ name: 'SPEAR_RUNS', subjects: ['spear.*.run.*.*'], num_replicas: 3 });
    await expect(openQueue(cluster())).rejects.toThrow(/SPEAR_RUNS has retention = "limits"/);
    await nc.close();
  });

  it('are taken as they are by the next node, which needs the same lease [cluster.streams]', async () => {
    const first = await queueOf();
    await first.claim('n1', 'default', 1, LEASE_MS, () => true);
    const other = await openQueue(cluster(), 1_000, LEASE_MS + 1_000);
    open.push(other);
    const claiming = other.claim('n2', 'default', 1, LEASE_MS, () => true);
    await expect(claiming).rejects.toThrow(/ack_wait = 60000 ms.*node\.lease_ms = 61000/);
  });
});
