import type { SubmittedRuns } from '../queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../records/run.ts';

/** Those who wait for ends of runs. They listen together: thousands may wait, and every change is told. */
export class AwaitedEnds {
  readonly #awaited = new WeakMap<SubmittedRuns, Map<string, Set<() => void>>>();

  /** The end of a run that may not be submitted yet. */
  of(runs: SubmittedRuns, id: string): AwaitedEnd {
    const { promise, resolve } = Promise.withResolvers<void>();
    const awaited = this.#listening(runs);
    const others = awaited.get(id) ?? new Set();
    awaited.set(id, others.add(resolve));
    const forget = () => {
      others.delete(resolve);
      if (others.size === 0) awaited.delete(id);
    };
    const reached = async (run: RunRecord, ms: number, signal: AbortSignal) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (hasEnded(run.status) || signal.aborted) resolve();
      await promise;
      clearTimeout(timer);
      forget();
      return (await runs.get(run.namespace, run.id)) ?? run;
    };
    return { reached, forget };
  }

  #listening(runs: SubmittedRuns): Map<string, Set<() => void>> {
    const known = this.#awaited.get(runs);
    if (known !== undefined) return known;
    const awaited = new Map<string, Set<() => void>>();
    this.#awaited.set(runs, awaited);
    runs.onChange(({ id, status }) => {
      if (hasEnded(status)) for (const over of awaited.get(id) ?? []) over();
    });
    return awaited;
  }
}

export interface AwaitedEnd {
  /** The run when it has ended, or as it is when the time is over or nobody waits any more. */
  reached(run: RunRecord, ms: number, signal: AbortSignal): Promise<RunRecord>;
  /** Nobody waits for it after all. */
  forget(): void;
}
