import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/longest-first.ts';
import { bundledGuestThread } from './test/support/bundled-guest-thread.ts';

// Processes that the tests start from the sources take from here what another has compiled before.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('node_modules/.cache/node', import.meta.url));

export default defineConfig({
  plugins: [await bundledGuestThread()],
  test: {
    include: ['test/**/*.test.ts'],
    // Every file gets a process of its own: the tests count threads, handles and child processes.
    pool: 'forks',
    // Half of the time goes into waiting for processes and deadlines, so there is a file more than there are cores.
    maxWorkers: Math.max(2, availableParallelism()) + 1,
    maxConcurrency: 2,
    sequence: { sequencer: LongestFirst },
    // Nobody waits for these but a test that hangs, so they leave room for a machine that is busy with other things.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
