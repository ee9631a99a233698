import { setTimeout as delay } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { NatsQueue } from '../../src/queue/nats/nats-queue.ts';
import { useNats } from '../support/engines/use-engine.ts';
import { queueContract } from './queue-contract.ts';

const LEASE_MS = 2_000;
const cluster = useNats();

/** Everything that is there belongs to the test before. */
async function clear(servers: readonly string[]): Promise<void> {
  const nc = await connect({ servers: [...servers] });
  const jsm = await jetstreamManager(nc);
  for await (const { config } of jsm.streams.list()) await jsm.streams.delete(config.name);
  await nc.close();
}

queueContract('the NATS engine', () => {
  const servers = cluster().members.map(({ address }) => address);
  const connected = async (maxRuns: number) => {
    const nc = await connect({ servers: [...servers] });
    return NatsQueue.open(nc, { replicas: 3, maxRuns, leaseMs: LEASE_MS, patienceMs: 15_000 });
  };
  return {
    open: async ({ maxQueued = 1_000 } = {}) => {
      await clear(servers);
      return connected(maxQueued);
    },
    reopen: () => connected(1_000),
    leaseMs: LEASE_MS,
    quietMs: 400,
    pass: (ms) => delay(ms),
  };
});
