import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import type { Cluster } from '../../../scripts/engines/member.ts';
import { NatsQueue } from '../../../src/server/queue/nats/nats-queue.ts';
import type { Claim, QueueKey } from '../../../src/server/queue/run-queue.ts';

/** Ends during no test, however busy the machine is. */
export const LEASE_MS = 60_000;
/** For a test that waits for the end of a lease. */
export const SHORT_LEASE_MS = 2_000;
const PATIENCE_MS = 15_000;

const serversOf = ({ members }: Cluster) => members.map(({ address }) => address);

/** Everything that is there belongs to the test before. */
export async function clearStreams(cluster: Cluster): Promise<void> {
  const nc = await connect({ servers: serversOf(cluster) });
  const jsm = await jetstreamManager(nc);
  for await (const { config } of jsm.streams.list()) await jsm.streams.delete(config.name);
  await nc.close();
}

/** The queue as another process would open it. */
export async function openQueue(
  cluster: Cluster,
  maxRuns = 1_000,
  leaseMs = LEASE_MS,
  replicas = 3,
): Promise<NatsQueue> {
  const nc = await connect({ servers: serversOf(cluster) });
  try {
    return await NatsQueue.open(nc, {
      replicas,
      maxRuns,
      leaseMs,
      patienceMs: PATIENCE_MS,
      submitTimeoutMs: PATIENCE_MS,
    });
  } catch (error) {
    await nc.close();
    throw error;
  }
}

/** The next run, as soon as it is given out. */
export async function nextClaim(
  queue: NatsQueue,
  node = 'n1',
  hasRoom: (line: QueueKey) => boolean = () => true,
): Promise<Claim> {
  for (;;) {
    const arrived = new Promise<void>((resolve) => {
      const stop = queue.onWork(() => {
        stop();
        resolve();
      });
    });
    const [claim] = await queue.claim(node, 'default', 1, LEASE_MS, hasRoom);
    if (claim !== undefined) return claim;
    await arrived;
  }
}
