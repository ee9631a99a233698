// Guests that wait, or bare workers that do, in a process of their own: `density-process.ts guests|workers COUNT`.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import type { ChatBackend } from '../../src/agent/chat/backend.ts';
import type { runGuest as RunGuest } from '../../src/run/run-guest.ts';
import { steppingGuest } from './stepping-guest.ts';

export interface Density {
  readonly rssBytesEach: number;
  readonly startMsEach: number;
  /** While everybody waits. */
  readonly loopDelayP99Ms: number;
}

const [kind, countText] = process.argv.slice(2);
const count = Number(countText);
const OBSERVED_MS = 500;
const NS_PER_MS = 1e6;

// The library as it is installed: a guest thread that has to strip the types of its own code is larger and slower.
const library = new URL('../../dist/index.js', import.meta.url).href;
const { runGuest } = (await import(library)) as { runGuest: typeof RunGuest };

const started = Promise.withResolvers<void>();
let waiting = 0;
const oneMore = () => {
  waiting++;
  if (waiting === count) started.resolve();
};
const end = new AbortController();

/** Takes every question and answers none. */
const silent: ChatBackend = {
  name: 'silent',
  model: 'silent',
  complete: (_request, signal) => {
    oneMore();
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
  },
  close: async () => {},
};

const wasm = steppingGuest({
  setup: (steps) => [
    ...steps.set(0, steps.call('cchat_create')),
    ...steps.set(1, steps.call('cchat_write_msg', steps.get(0), ...steps.text('user'), ...steps.text('Hello?'))),
    ...steps.set(1, steps.call('cchat_send', steps.get(0), 0)),
  ],
  step: () => [],
});

function startGuest(): Promise<unknown> {
  return runGuest({ wasm, backend: async () => silent, signal: end.signal });
}

/** A worker that does nothing but wait for a message. */
function startWorker(): Promise<unknown> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads'); parentPort.on('message', () => process.exit()); parentPort.postMessage(1);`,
    {
      eval: true,
      env: {},
    },
  );
  worker.once('message', oneMore);
  end.signal.addEventListener('abort', () => worker.postMessage(0));
  return new Promise((resolve) => worker.once('exit', resolve));
}

const before = process.memoryUsage.rss();
const startedAt = performance.now();
const all = Array.from({ length: count }, () => (kind === 'guests' ? startGuest() : startWorker()));
await started.promise;
const startMsEach = (performance.now() - startedAt) / count;
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
await new Promise((resolve) => setTimeout(resolve, OBSERVED_MS));
delay.disable();
const density: Density = {
  rssBytesEach: (process.memoryUsage.rss() - before) / count,
  startMsEach,
  loopDelayP99Ms: delay.percentile(99) / NS_PER_MS,
};
end.abort();
await Promise.all(all);
process.send?.(density, undefined, {}, () => process.exit());
