import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { bundledGuestThread } from './test/support/bundled-guest-thread.ts';
import { SlowestFirst } from './test/support/slowest-first.ts';
import { kinds } from './test/support/test-kinds.ts';

// Processes that the tests start from the sources share one compile cache.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('node_modules/.cache/node', import.meta.url));

const plugins = [await bundledGuestThread()];

export default defineConfig({
  plugins,
  test: {
    // Half of the time is spent waiting for processes and deadlines, so one more file runs than there are cores.
    maxWorkers: Math.max(2, availableParallelism()) + 1,
    sequence: { sequencer: SlowestFirst },
    // The OpenID provider of some tests warns about its own test settings at every start.
    onConsoleLog: (log) => !log.includes('oidc-provider WARNING'),
    projects: kinds.map(({ name, include, exclude, options }) => ({
      extends: true,
      test: { name, include: [...include], exclude: [...exclude], ...options },
    })),
  },
});
