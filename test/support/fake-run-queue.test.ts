import { queueContract } from '../server/queue/queue-contract.ts';
import { FakeRunQueue } from './fake-run-queue.ts';

queueContract('the fake of the tests', () => {
  let passed = 0;
  const now = () => Date.now() + passed;
  return {
    open: async (options) => new FakeRunQueue({ ...options, now }),
    reopen: async (queue) => (queue as FakeRunQueue).restarted({ now }),
    leaseMs: 30_000,
    quietMs: 0,
    pass: async (ms) => {
      passed += ms;
    },
  };
});
