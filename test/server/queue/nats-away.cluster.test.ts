import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openNats } from '../../../src/server/queue/nats/connect.ts';
import { NatsQueue } from '../../../src/server/queue/nats/nats-queue.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { until } from '../../support/until.ts';
import { clearStreams } from './nats-clusters.ts';
import { newRun } from './queue-contract.ts';

const SUBMIT_MS = 300;
const cluster = useNats({ members: 1 });
const open: NatsQueue[] = [];
const member = () => {
  const [only] = cluster().members;
  if (only === undefined) throw new Error('the cluster has no member');
  return only;
};

async function openQueue(): Promise<NatsQueue> {
  const bounds = { replicas: 1, maxRuns: 100, leaseMs: 30_000, patienceMs: 60_000, submitTimeoutMs: SUBMIT_MS };
  const plain = { tls: false, ca: null, identity: null, creds: null, silenceMs: 30_000, onStatus: () => {} };
  const queue = await openNats({ servers: [member().address], name: 'test', ...plain }, (nc) =>
    NatsQueue.open(nc, bounds),
  );
  open.push(queue);
  return queue;
}

/** Submitted until it is accepted, as a client does with its key. */
async function submitted(queue: NatsQueue, id: string): Promise<void> {
  while ((await queue.submit(newRun(id)).catch(() => null)) === null);
}

beforeEach(() => clearStreams(cluster()));
afterEach(async () => {
  member().resume();
  await member().start();
  for (const queue of open.splice(0)) await queue.close();
});

describe('a queue in NATS that does not answer', () => {
  it.each(['is killed', 'hangs'])(
    'fails a submission after its own time, says why, and recovers: the server %s [node.queue-away]',
    async (how) => {
      const queue = await openQueue();
      expect(queue.problem()).toBeNull();
      if (how === 'hangs') member().pause();
      else await member().kill();
      await expect(queue.submit(newRun('r1'))).rejects.toMatchObject({
        code: 'unavailable',
        message: expect.stringContaining(`within ${SUBMIT_MS} ms`),
      });
      await until(() => queue.problem() !== null, 'the queue to be noticed as away');
      expect(queue.problem()).toContain('the run queue in NATS does not work');
      if (how === 'hangs') member().resume();
      else await member().start();
      await until(() => queue.problem() === null, 'the queue to be there again');
      // The same id is the same run, whatever became of the first submission.
      await submitted(queue, 'r1');
      expect((await queue.list('default', { limit: 10 })).runs.map(({ id }) => id)).toEqual(['r1']);
      expect((await queue.get('default', 'r1'))?.status).toBe('queued');
    },
  );
});
