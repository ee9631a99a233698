// Guests that wait on shared threads, or bare instances that do, in a process of their own: `shared-process.ts guests|instances COUNT`.
import type * as Library from '../../src/index.ts';
import { waitingModule } from './waiting-module.ts';

export interface SharedMemory {
  readonly bytesEach: number;
  /** How many ended as they were told to. */
  readonly ended: number;
}

const [kind, countText] = process.argv.slice(2);
const count = Number(countText);
const SETTLE_MS = 2_000;
/** Started without a pause nobody would be seated until all are. */
const AT_ONCE = 200;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
// The library as it is installed.
const { GuestThreads, runGuest } = (await import(
  new URL('../../dist/index.js', import.meta.url).href
)) as typeof Library;

async function guests(): Promise<SharedMemory> {
  const wasm = await waitingModule();
  await using threads = new GuestThreads({ threads: 4 });
  const stop = new AbortController();
  // A machine that is busy with other things is nobody's fault.
  const limits = { turn_ms: 60_000 };
  const output = { stdout: () => {}, stderr: () => {} };
  const start = () => runGuest({ wasm, threads, limits, output, signal: stop.signal });
  const seated = () => threads.threads.reduce((sum, { guests }) => sum + guests, 0);
  const runs = Array.from({ length: 4 }, start);
  while (seated() < 4) await pause(1);
  await pause(SETTLE_MS);
  const before = process.memoryUsage.rss();
  while (runs.length < count + 4) {
    for (let left = AT_ONCE; left > 0 && runs.length < count + 4; left--) runs.push(start());
    await pause(0);
  }
  while (seated() < count + 4) await pause(10);
  await pause(SETTLE_MS);
  const bytesEach = (process.memoryUsage.rss() - before) / count;
  stop.abort();
  const results = await Promise.all(runs);
  return { bytesEach, ended: results.filter(({ reason }) => reason === 'interrupted').length - 4 };
}

async function instances(): Promise<SharedMemory> {
  const module = await WebAssembly.compile(await waitingModule());
  const ends: (() => void)[] = [];
  const sleep_ms = () => new Promise<void>((resolve) => ends.push(resolve));
  const before = process.memoryUsage.rss();
  const runs = Array.from({ length: count }, () => {
    const imports = { spear: { sleep_ms: new WebAssembly.Suspending(sleep_ms), time_now_ms: () => 0n } };
    const { exports } = new WebAssembly.Instance(module, imports);
    return WebAssembly.promising(exports.run as WebAssembly.GuestFunction)();
  });
  await pause(SETTLE_MS);
  const bytesEach = (process.memoryUsage.rss() - before) / count;
  for (const end of ends) end();
  return { bytesEach, ended: (await Promise.all(runs)).length };
}

const found = kind === 'guests' ? await guests() : await instances();
process.send?.(found, undefined, {}, () => process.exit());
