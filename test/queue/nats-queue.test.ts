import { setTimeout as delay } from 'node:timers/promises';
import { useNats } from '../support/engines/use-engine.ts';
import { clearStreams, LEASE_MS, openQueue } from './nats-clusters.ts';
import { queueContract } from './queue-contract.ts';

const cluster = useNats();

queueContract('the NATS engine', () => ({
  open: async ({ maxQueued = 1_000 } = {}) => {
    await clearStreams(cluster());
    return openQueue(cluster(), maxQueued);
  },
  reopen: () => openQueue(cluster()),
  leaseMs: LEASE_MS,
  quietMs: 700,
  pass: (ms) => delay(ms),
}));
