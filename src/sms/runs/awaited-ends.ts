import { hasEnded, type RunRecord } from '../../protocol/run.ts';
import type { SubmittedRuns } from '../../queue/run-queue.ts';

const known = new WeakMap<SubmittedRuns, AwaitedEnds>();

/** Those who wait for runs of one queue. They listen together: thousands may wait, and every change is told. */
export function awaitedEnds(runs: SubmittedRuns): AwaitedEnds {
  const ends = known.get(runs) ?? new AwaitedEnds(runs);
  known.set(runs, ends);
  return ends;
}

class AwaitedEnds {
  readonly #runs: SubmittedRuns;
  readonly #awaited = new Map<string, Set<() => void>>();

  constructor(runs: SubmittedRuns) {
    this.#runs = runs;
    runs.onChange(({ id, status }) => {
      if (hasEnded(status)) for (const over of this.#awaited.get(id) ?? []) over();
    });
  }

  /** The end of a run that may not be submitted yet. */
  of(id: string): AwaitedEnd {
    const { promise, resolve } = Promise.withResolvers<void>();
    const others = this.#awaited.get(id) ?? new Set();
    this.#awaited.set(id, others.add(resolve));
    const forget = () => {
      others.delete(resolve);
      if (others.size === 0) this.#awaited.delete(id);
    };
    const reached = async (run: RunRecord, ms: number, signal: AbortSignal) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (hasEnded(run.status) || signal.aborted) resolve();
      await promise;
      clearTimeout(timer);
      forget();
      return (await this.#runs.get(run.namespace, run.id)) ?? run;
    };
    return { reached, forget };
  }
}

export interface AwaitedEnd {
  /** The run when it has ended, or as it is when the time is over or nobody waits any more. */
  reached(run: RunRecord, ms: number, signal: AbortSignal): Promise<RunRecord>;
  /** Nobody waits for it after all. */
  forget(): void;
}
