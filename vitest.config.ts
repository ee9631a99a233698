import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Every file gets a process of its own: the tests count threads, handles and child processes.
    pool: 'forks',
    testTimeout: 20_000,
    hookTimeout: 30_000,
  },
});
