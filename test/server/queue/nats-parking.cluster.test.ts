import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NatsQueue } from '../../../src/server/queue/nats/nats-queue.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { clearStreams, nextClaim, openQueue } from './nats-clusters.ts';
import { newRun, success } from './queue-contract.ts';

const cluster = useNats();
const open: NatsQueue[] = [];
const queueOf = async () => {
  const queue = await openQueue(cluster());
  open.push(queue);
  return queue;
};
const messages = async ({ parts }: NatsQueue) => (await parts.jsm.streams.info('SPEAR_RUNS')).state.messages;
const until = { kind: 'time', atMs: 7 } as const;

beforeEach(() => clearStreams(cluster()));
afterEach(async () => {
  for (const queue of open.splice(0)) await queue.close();
});

describe('a parked run on NATS', () => {
  it('has no message and no claim, and one of those who wake it brings it back at no attempt', async () => {
    const [first, second] = [await queueOf(), await queueOf()];
    await first.submit(newRun('r1'));
    const claim = await nextClaim(first);
    expect(await first.park(claim, until)).toBe(true);
    expect(await messages(first)).toBe(0);
    expect(await first.renew(claim)).toBe(false);
    expect(await first.finish(claim, success('late'))).toBe(false);
    expect(await second.get('default', 'r1')).toMatchObject({ status: 'parked', attempts: 0, node: null });
    expect((await first.parked('default', null, 10)).runs).toEqual([{ namespace: 'default', id: 'r1', until }]);
    const woken = await Promise.all([first, second, first].map((queue) => queue.wake('default', 'r1')));
    expect(woken.filter((own) => own)).toHaveLength(1);
    expect(await second.wake('default', 'unknown')).toBe(false);
    const again = await nextClaim(second, 'n2');
    expect(again).toMatchObject({ attempt: 1, run: { id: 'r1', node: 'n2' } });
    expect(await second.finish(again, success('done'))).toBe(true);
  });

  it('that is woken while it is being parked is not lost', async () => {
    const [first, second] = [await queueOf(), await queueOf()];
    await first.submit(newRun('r1'));
    const claim = await nextClaim(first);
    const parked = new Promise<void>((resolve) => {
      second.onChange(({ status }) => status === 'parked' && resolve());
    });
    const parking = first.park(claim, until);
    await parked; // its message may still be there
    expect(await second.wake('default', 'r1')).toBe(true);
    expect(await parking).toBe(true);
    expect(await nextClaim(second, 'n2')).toMatchObject({ attempt: 1, run: { id: 'r1' } });
  });

  it('is cancelled at once, and one that was cancelled before does not stay parked', async () => {
    const queue = await queueOf();
    for (const id of ['r1', 'r2']) await queue.submit(newRun(id));
    const [one, two] = [await nextClaim(queue), await nextClaim(queue)];
    await queue.park(one, until);
    expect(await queue.cancel('default', 'r1')).toMatchObject({ status: 'cancelled' });
    expect(await queue.wake('default', 'r1')).toBe(false);
    await queue.mark(two, { status: 'running' });
    await queue.cancel('default', 'r2');
    expect(await queue.park(two, until)).toBe(true);
    expect(await nextClaim(queue)).toMatchObject({ isCancelled: true, run: { id: 'r2' } });
    expect((await queue.parked('default', null, 10)).runs).toEqual([]);
  });
});
