import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Every file gets a process of its own: the tests count threads, handles and child processes.
    pool: 'forks',
    // Most of the time goes into waiting for processes, so a small machine runs two files at a time as well.
    maxWorkers: Math.max(2, availableParallelism()),
    testTimeout: 20_000,
    hookTimeout: 30_000,
  },
});
