import { Bench, type Task } from 'tinybench';
import { BenchGuest } from './bench-guest.ts';
import { type HostcallCase, hostcallCases } from './cases.ts';
import { BARE, BARE_SUSPENDING } from './loop-module.ts';

export interface Effort {
  /** Calls in one sample: many, so that entering the guest and reading the clock do not count. */
  readonly callsPerSample: number;
  /** How long each case is measured. */
  readonly timeMs: number;
}

export interface Measured {
  readonly name: string;
  readonly nsPerCall: number;
  /** How often the bare import fits into it. */
  readonly ratio: number;
  /** What the ratio is against. */
  readonly against: string;
}

const MIN_SAMPLES = 10;

/** Every hostcall beside an import that does nothing, in the same run. */
export async function measureHostcalls({ callsPerSample, timeMs }: Effort): Promise<Measured[]> {
  const guest = await BenchGuest.open();
  try {
    const cases = await hostcallCases(guest);
    const options = { time: timeMs, iterations: MIN_SAMPLES, warmupTime: timeMs / 4, warmupIterations: MIN_SAMPLES };
    const bench = new Bench({ ...options, throws: true });
    for (const one of cases) addTask(bench, guest, one, callsPerSample);
    await bench.run();
    const nsPerCall = bench.tasks.map((task) => (median(task) * 1e6) / callsPerSample);
    const at = (name: string) => nsPerCall[cases.findIndex((one) => one.name === name)] ?? Number.NaN;
    return cases.map(({ name, suspending }, index) => {
      const against = suspending ? BARE_SUSPENDING : BARE;
      const ns = nsPerCall[index] ?? Number.NaN;
      return { name, nsPerCall: ns, ratio: ns / at(against), against };
    });
  } finally {
    await guest.close();
  }
}

function addTask(bench: Bench, guest: BenchGuest, one: HostcallCase, times: number): void {
  const { name, loop, suspending, expected } = one;
  let args: number[] = [];
  let result = Number.NaN;
  const run = suspending
    ? async () => {
        result = await guest.suspendingLoop(loop, times, ...args);
      }
    : () => {
        result = guest.loop(loop, times, ...args);
      };
  bench.add(name, run, {
    beforeEach: () => {
      args = one.args();
    },
    afterEach: () => {
      if (!expected(result)) throw new Error(`${name} gave ${result}: the wrong thing is measured`);
    },
  });
}

function median(task: Task): number {
  const { result } = task;
  if (!('latency' in result)) throw new Error(`${task.name} was not measured: ${result.state}`);
  return result.latency.p50;
}
