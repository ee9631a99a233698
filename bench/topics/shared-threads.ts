import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type * as Library from '../../src/index.ts';
import type { SharedMemory } from '../guests/shared-process.ts';
import { callingModule, endingModule, spinningModule, waitingModule } from '../guests/waiting-module.ts';
import { goal, type Row, type RowText, rowFrom } from '../measure/row.ts';
import { agentRow } from './agent-runs.ts';
import type { Effort } from './topic.ts';
import { turnPassRows } from './turn-pass.ts';

const program = fileURLToPath(new URL('../guests/shared-process.ts', import.meta.url));
const KIB = 1024;
/** Nobody is ended for a machine that is busy. */
const PATIENT = { turn_ms: 60_000 };

type Lib = Pick<typeof Library, 'GuestThreads' | 'runGuest'>;

/** What guests cost that share a thread. */
export async function sharedThreadRows(effort: Effort): Promise<Row[]> {
  const library = (await import(new URL('../../dist/index.js', import.meta.url).href)) as Lib;
  return [
    await memory(effort),
    await starts(library, effort),
    ...(await turnPassRows(library, effort)),
    ...(await neighbours(library, effort)),
    await localCalls(library, effort),
    await agentRow(effort),
  ];
}

async function memory(effort: Effort): Promise<Row> {
  const count = effort.of(1_000, 10_000);
  const guests = await measure('guests', count);
  const bare = await measure('instances', Math.min(count, 4_000));
  const text: RowText = {
    topic: 'node',
    name: `${count} guests that wait: memory each`,
    unit: 'KiB',
    yardstickName: 'a bare suspended instance',
    goal: goal.medianAtMost(25, 'KiB'),
    note: `${guests.ended} of ${count} ended as requested`,
    cause: `a guest has about 4 KiB on the heap of the host and 8 on that of its thread; the rest is the engine's; ${guests.ended} of ${count} ended as requested`,
  };
  return rowFrom(text, [guests.bytesEach / KIB], [bare.bytesEach / KIB]);
}

async function starts({ GuestThreads, runGuest }: Lib, effort: Effort): Promise<Row> {
  const wasm = await endingModule();
  const module = await WebAssembly.compile(wasm);
  const count = effort.of(500, 4_000);
  await using threads = new GuestThreads({ threads: 1 });
  const run = () => runGuest({ wasm, threads, output: () => {}, limits: PATIENT });
  const bare = () => {
    const imports = { spear: { sleep_ms: () => {}, time_now_ms: () => 0n } };
    const { exports } = new WebAssembly.Instance(module, imports);
    return WebAssembly.promising(exports.run as WebAssembly.GuestFunction)();
  };
  await Promise.all(Array.from({ length: count }, run));
  const ours: number[] = [];
  const yardstick: number[] = [];
  for (let round = 0; round < effort.of(3, 9); round++) {
    yardstick.push((await timed(() => Promise.all(Array.from({ length: count }, bare)))) / count);
    ours.push((await timed(() => Promise.all(Array.from({ length: count }, run)))) / count);
  }
  const text: RowText = {
    topic: 'node',
    name: `a run of a compiled guest that ends at once, ${count} together`,
    unit: 'µs',
    yardstickName: 'a bare instance, entered',
    goal: goal.ratioAtMost(3),
    cause: 'the whole run, with its services, audit log, result and two crossings of the port',
  };
  const micro = (ms: number) => ms * 1000;
  return rowFrom(text, ours.map(micro), yardstick.map(micro));
}

/** What one guest that spins does to others, and how long it goes on after its deadline. */
async function neighbours({ GuestThreads, runGuest }: Lib, effort: Effort): Promise<Row[]> {
  await using threads = new GuestThreads({ threads: 1 });
  const [spin, end] = [await spinningModule(), await endingModule()];
  const run = () => runGuest({ wasm: end, threads, output: () => {}, limits: PATIENT });
  for (let warm = 0; warm < 100; warm++) await run();
  const count = effort.of(100, 500);
  const alone: number[] = [];
  for (let left = count; left > 0; left--) alone.push(await timed(run));
  const stop = new AbortController();
  const spinning = runGuest({ wasm: spin, threads, limits: PATIENT, signal: stop.signal });
  const beside: number[] = [];
  for (let left = count; left > 0; left--) beside.push(await timed(run));
  stop.abort();
  await spinning;
  const late: number[] = [];
  for (let left = effort.of(5, 20); left > 0; left--) {
    const deadline = 50;
    const spun = timed(() => runGuest({ wasm: spin, threads, limits: { ...PATIENT, timeout_ms: deadline } }));
    late.push((await spun) - deadline);
  }
  const shared = { topic: 'node', unit: 'ms', yardstickName: 'without it' } as const;
  return [
    rowFrom(
      {
        ...shared,
        name: 'a short run, one at a time',
        yardstickName: 'one millisecond',
        goal: goal.medianAtMost(0.5, 'ms'),
        note: 'from runGuest to its result; the cost of a queue is in node-queue',
        cause: 'two crossings of the port and the set-up of a run; the cost of a queue is in node-queue',
      },
      alone,
      alone.map(() => 1),
    ),
    rowFrom(
      { ...shared, name: 'a short run beside a guest that spins', goal: goal.p99AtMost(20, 'ms') },
      beside,
      alone,
    ),
    rowFrom(
      {
        ...shared,
        name: 'a guest that spins, after its deadline',
        yardstickName: 'one millisecond',
        goal: goal.p99AtMost(50, 'ms'),
      },
      late,
      late.map(() => 1),
    ),
  ];
}

async function localCalls({ GuestThreads, runGuest }: Lib, effort: Effort): Promise<Row> {
  const times = effort.of(1_000_000, 3_000_000);
  const wasm = await callingModule(times);
  await using threads = new GuestThreads({ threads: 1 });
  const run = async () => (await runGuest({ wasm, threads, output: () => {}, limits: PATIENT })).durations.runMs;
  await run();
  const alone: number[] = [];
  for (let round = 0; round < effort.of(3, 7); round++) alone.push(await run());
  const stop = new AbortController();
  const waiting = await waitingModule();
  const others = Array.from({ length: 1_000 }, () =>
    runGuest({ wasm: waiting, threads, limits: PATIENT, signal: stop.signal }),
  );
  while (threads.threads[0]?.guests !== 1_000) await new Promise((resolve) => setTimeout(resolve, 10));
  const among: number[] = [];
  for (let round = 0; round < alone.length; round++) among.push(await run());
  stop.abort();
  await Promise.all(others);
  const each = (ms: number) => (ms * 1e6) / times;
  const text: RowText = {
    topic: 'node',
    name: 'a local hostcall with 1,000 guests on the thread',
    unit: 'ns',
    yardstickName: 'alone on it',
    goal: goal.ratioAtMost(1.5),
  };
  return rowFrom(text, among.map(each), alone.map(each));
}

async function measure(kind: 'guests' | 'instances', count: number): Promise<SharedMemory> {
  const child = fork(program, [kind, String(count)]);
  let found: SharedMemory | undefined;
  child.once('message', (message) => {
    found = message as SharedMemory;
  });
  const [code] = await once(child, 'exit');
  if (!found) throw new Error(`${count} ${kind}: the process ended with ${code}`);
  return found;
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await act();
  return performance.now() - started;
}
