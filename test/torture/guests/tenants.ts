import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { GuestThreads, type RunResult, runGuest } from '../../../src/index.ts';
import { namesPastTheEnd } from '../../runtime/wasm/preemption/valid-after-pass.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { call, drop, forever, guestModule, number } from './guest-module.ts';

const THREADS = 2;
const NAMESPACE_THREADS = 4;
const MIB = 1024 * 1024;
const PAGES_PER_MIB = 16;
const THREAD_MIB = 96;
/** With the 8 MiB that a guest begins with, half of what the thread has. */
const LARGE_MIB = 40;
const GROWING_AT_ONCE = 3;

/** One namespace takes every thread it can get; others run what they have, and modules beyond their own indexes do not. */
export async function tenants(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  await using threads = new GuestThreads({ threads: THREADS, namespaceThreads: NAMESPACE_THREADS });
  const stop = new AbortController();
  const [sleeps, spins, ends] = await Promise.all(
    [forever(call('sleep_ms', number(1_000_000))), forever(), ''].map((run) => guestModule({ run })),
  );
  const start = (namespace: string, wasm: Uint8Array | undefined): Promise<RunResult> => {
    const limits = { turn_ms: 30_000 };
    return runGuest({ wasm: wasm as Uint8Array, namespace, threads, limits, output: () => {}, signal: stop.signal });
  };
  const greedy = Array.from({ length: effort.of(20, 400) }, (_, at) => start('greedy', at % 10 === 0 ? spins : sleeps));
  let count = 0;
  for (let round = 0; round < effort.of(1, 20) && !effort.isOver(); round++) {
    for (let at = 0; at < effort.of(3, 2 * NAMESPACE_THREADS); at++) {
      const { reason, message } = await start(`honest-${at}`, ends);
      if (reason !== 'exit') failures.add(`a run of honest-${at} ended with ${reason}: ${message}`);
      count += 1;
    }
  }
  for (const [name, body] of Object.entries(namesPastTheEnd)) {
    const { reason } = await start('greedy', new Uint8Array(await parse(`(module ${body})`)));
    if (reason !== 'module') failures.add(`a module that names ${name} past the end ended with ${reason}`);
    count += 1;
  }
  stop.abort();
  await Promise.all(greedy);
  const measured = `beside ${greedy.length} guests of a namespace that takes all threads`;
  return { what: 'runs of other namespaces', count, lost: 0, crashed: 0, measured, failures: failures.list() };
}

/** Guests grow beyond the memory of their shared thread: they end, never the largest, and none of another namespace. */
export async function growth(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  await using threads = new GuestThreads({
    ...{ threads: 1, namespaceThreads: 1, memoryBytesPerThread: THREAD_MIB * MIB },
  });
  const stop = new AbortController();
  const grown = (mib: number, then: string) =>
    guestModule({ run: `${drop(`(memory.grow ${number(mib * PAGES_PER_MIB)})`)} ${then}` });
  const start = async (namespace: string, wasm: Promise<Uint8Array>): Promise<RunResult> =>
    runGuest({ wasm: await wasm, namespace, threads, output: () => {}, signal: stop.signal });
  const large = start('greedy', grown(LARGE_MIB, forever(call('sleep_ms', number(1_000)))));
  let [count, lost] = [0, 0];
  const lane = async () => {
    for (let at = 0; at < effort.of(4, 200) && !effort.isOver(); at++) {
      // The first one of each lane ends only because it grew.
      const [mib, ms] = at === 0 ? [THREAD_MIB, 60_000] : [effort.random.below(THREAD_MIB), 20];
      const grows = start('greedy', grown(mib, call('sleep_ms', number(ms))));
      const honest = await start('honest', guestModule({ run: '' }));
      if (honest.reason !== 'exit') failures.add(`an honest guest ended with ${honest.reason}: ${honest.message}`);
      const { reason, message } = await grows;
      if (reason !== 'exit' && reason !== 'lost') failures.add(`a guest that grows ended with ${reason}: ${message}`);
      if (reason === 'lost') lost += 1;
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: GROWING_AT_ONCE }, lane));
  stop.abort();
  const { reason, message } = await large;
  if (reason !== 'interrupted') failures.add(`the largest guest ended with ${reason}: ${message}`);
  if (lost < GROWING_AT_ONCE) failures.add(`only ${lost} guests ended because they grew`);
  const measured = `${lost} grew beyond the memory of their thread and ended; the largest guest did not`;
  return {
    what: 'guests that grow on a shared thread',
    count,
    lost: 0,
    crashed: 0,
    measured,
    failures: failures.list(),
  };
}
