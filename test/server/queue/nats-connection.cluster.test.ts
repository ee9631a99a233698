import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openNats } from '../../../src/server/queue/nats/connect.ts';
import { NatsQueue } from '../../../src/server/queue/nats/nats-queue.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { fastest } from '../../support/fastest.ts';
import { CutConnections } from '../../torture/cluster/cut-connections.ts';
import { clearStreams, nextClaim } from './nats-clusters.ts';
import { newRun } from './queue-contract.ts';

/** Timeout of a request; the timeout of a pull is more than twice that. */
const REQUEST_MS = 5_000;
const LEASE_MS = 30_000;
const cluster = useNats({ members: 1 });
const open: (() => void | Promise<void>)[] = [];

async function queueThrough(network: { readonly address: string }, leaseMs: number): Promise<NatsQueue> {
  const plain = { tls: false, ca: null, identity: null, creds: null, silenceMs: leaseMs, onStatus: () => {} };
  const bounds = { replicas: 1, maxRuns: 100, leaseMs, patienceMs: 60_000, submitTimeoutMs: 60_000 };
  const queue = await openNats({ servers: [network.address], name: 'test', ...plain }, (nc) =>
    NatsQueue.open(nc, bounds),
  );
  open.push(() => queue.close());
  return queue;
}

const server = () => ({ address: cluster().members[0]?.address ?? '' });
let network: CutConnections;

beforeEach(async () => {
  await clearStreams(cluster());
  network = await CutConnections.open(server().address);
  open.push(() => network.close());
});
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

describe('a connection to NATS that is lost', () => {
  it('is not slower than a new one: requests in flight are repeated, and new ones wait for the reconnect [cluster.connection]', async () => {
    const queue = await queueThrough(network, LEASE_MS);
    const ms = await fastest(REQUEST_MS, async (n) => {
      network.hold();
      const submitting = queue.submit(newRun(`cut-${n}`));
      network.cut();
      await Promise.all([submitting, queue.submit(newRun(`meanwhile-${n}`))]);
    });
    expect(ms).toBeLessThan(REQUEST_MS);
    for (const name of ['cut', 'meanwhile']) expect(await queue.get('default', `${name}-0`)).not.toBeNull();
  });

  it('is pulled over again: a run that is submitted afterwards is delivered at once [cluster.connection]', async () => {
    const queue = await queueThrough(network, LEASE_MS);
    const ms = await fastest(REQUEST_MS, async (n) => {
      // It has asked for one when its connection is cut.
      await queue.claim('n', 'default', 1, LEASE_MS, () => true);
      network.cut();
      await queue.submit(newRun(`after-${n}`));
      await nextClaim(queue);
    });
    expect(ms).toBeLessThan(REQUEST_MS);
  });

  it('is noticed when it is half open, before a lease has ended twice [cluster.connection]', async () => {
    const leaseMs = 1_500;
    const queue = await queueThrough(network, leaseMs);
    const ms = await fastest(2 * leaseMs, async (n) => {
      network.halfOpen('client');
      await queue.submit(newRun(`half-${n}`));
    });
    expect(ms).toBeLessThan(2 * leaseMs);
  });

  it('loses no change that a server sent over the lost connection [cluster.connection]', async () => {
    const [queue, other] = [await queueThrough(network, LEASE_MS), await queueThrough(server(), LEASE_MS)];
    const notified = new Promise<void>((resolve) => queue.onChange(({ id }) => id === 'r1' && resolve()));
    network.halfOpen('server');
    await other.submit(newRun('r1'));
    await notified;
  });
});
