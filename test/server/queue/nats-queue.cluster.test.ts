import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { useNats } from '../../support/engines/use-engine.ts';
import { clearStreams, LEASE_MS, nextClaim, openQueue } from './nats-clusters.ts';
import { newRun, queueContract } from './queue-contract.ts';

const cluster = useNats();

queueContract('the NATS engine', (leases) => {
  // The clock of the servers is the real one: what is done in one half of a lease must not take the other half.
  const leaseMs = leases === 'end' ? 8_000 : LEASE_MS;
  return {
    open: async ({ maxQueued = 1_000 } = {}) => {
      await clearStreams(cluster());
      return openQueue(cluster(), maxQueued, leaseMs);
    },
    reopen: () => openQueue(cluster(), 1_000, leaseMs),
    leaseMs,
    quietMs: 700,
    pass: (ms) => delay(ms),
  };
});

describe('nodes that start together where there is nothing yet', () => {
  it('all find the streams that one of them makes [cluster.streams]', async () => {
    for (let round = 0; round < 3; round++) {
      await clearStreams(cluster());
      const queues = await Promise.all(Array.from({ length: 9 }, () => openQueue(cluster())));
      const claims = await Promise.all(
        queues.map((queue, n) => queue.claim(`n${n}`, 'default', 1, LEASE_MS, () => true)),
      );
      expect(claims.flat()).toEqual([]);
      await Promise.all(queues.map((queue) => queue.close()));
    }
  });

  it('say what the servers refuse to make, and why [cluster.streams]', async () => {
    await clearStreams(cluster());
    await expect(openQueue(cluster(), 1_000, LEASE_MS, 5)).rejects.toThrow(
      /^the stream SPEAR_RUNS cannot be created in NATS: .*(?:peers|replicas)/,
    );
  });
});

describe('a node whose only free slot was offered a run that it cannot take', () => {
  it('asks for the next run', async () => {
    await clearStreams(cluster());
    const queue = await openQueue(cluster());
    await queue.submit(newRun('full', { task: 'busy' }));
    const offered = Promise.withResolvers<void>();
    const claimed = nextClaim(queue, 'n1', ({ task }) => {
      if (task !== 'busy') return true;
      offered.resolve();
      return false;
    });
    await offered.promise;
    await queue.submit(newRun('free'));
    expect((await claimed).run.id).toBe('free');
    await queue.close();
  });
});
