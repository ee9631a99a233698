import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Order } from './flooder.ts';
import type { Target } from './ground.ts';
import type { FloodKind } from './kinds.ts';
import { type Probed, probe } from './probe.ts';

/** At most 83 probes a second: beyond `anonymous_calls_per_second` (100) the probe would be a flood, and refused. */
const BETWEEN_PROBES_MS = 12;

export interface Latency {
  /** As the clock says. */
  readonly ms: number;
  /** Without the time in which this machine had no processor for the registry or for the probe. */
  readonly servedMs: number;
  /** Why the probe was not answered; null: it was. */
  readonly problem: string | null;
}

export interface Flooded {
  readonly latencies: readonly Latency[];
  readonly done: number;
}

/** A process that floods, for as long as it is needed. */
export class Flooder {
  readonly #process: ChildProcess;

  private constructor(flooder: ChildProcess) {
    this.#process = flooder;
  }

  static async start(): Promise<Flooder> {
    const flooder = fork(new URL('./flooder.ts', import.meta.url));
    await once(flooder, 'message');
    return new Flooder(flooder);
  }

  /** Floods, and asks the registry again and again meanwhile whether it is ready, for as long as `goesOn` says. */
  async flood(
    { kind, seed, target }: { readonly kind: FloodKind; readonly seed: number; readonly target: Target },
    probed: Probed,
    pid: number,
    goesOn: (probes: number) => boolean,
  ): Promise<Flooded> {
    this.#order({ begin: kind, seed, target });
    const latencies: Latency[] = [];
    while (goesOn(latencies.length)) {
      const before = waitedMs(pid) + waitedMs(process.pid);
      const { ms, problem } = await probe(probed);
      latencies.push({ ms, servedMs: Math.max(0, ms - (waitedMs(pid) + waitedMs(process.pid) - before)), problem });
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_PROBES_MS));
    }
    this.#order({ end: true });
    const [done] = (await once(this.#process, 'message')) as [number];
    return { latencies, done };
  }

  end(): void {
    this.#process.kill('SIGKILL');
  }

  #order(order: Order): void {
    this.#process.send(order);
  }
}

/**
 * How long the main thread of a process was ready to run and had to wait for a processor. Floods and all else on the
 * machine share its few processors with the registry, which a flood from elsewhere would not.
 */
function waitedMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
}

/** The most memory that the process ever had, in MiB. */
export function peakMebibytes(pid: number): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kilobytes) / 1024);
}
