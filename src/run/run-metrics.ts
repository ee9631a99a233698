import type { ChatBackend } from '../chat/backend.ts';
import { meteredBackend } from '../chat/metered-backend.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { CompiledRunOptions } from './run-options.ts';

type Counts = Readonly<Record<string, number>>;

/** How long a reader of metrics waits for a guest that may be computing. */
const COUNT_TIMEOUT_MS = 100;

/** Counts one run. Without metrics there is none of this: a run passes its options through untouched. */
export class RunMetrics {
  readonly #ask: () => void;
  readonly #waiting = new Set<(counts: Counts) => void>();
  readonly #unsubscribe: () => void;
  readonly #guest;
  readonly options: CompiledRunOptions;

  /** `ask` sends the question for the counts to the guest; {@link counted} takes its answer. */
  constructor(options: CompiledRunOptions, metrics: Metrics, ask: () => void) {
    this.#ask = ask;
    this.#guest = metrics.guests.guestStarted(() => this.#count());
    this.#unsubscribe = options.events.subscribe((invocation) => {
      if (invocation.run !== options.run) return;
      if (invocation.source === 'mcp') metrics.mcp.toolCalled(invocation);
      else metrics.guests.toolCalled(invocation.outcome, invocation.durationMs);
    });
    const backend = async (name: string | undefined): Promise<ChatBackend> =>
      meteredBackend(await options.backend(name), metrics.guests);
    this.options = Object.freeze({
      ...options,
      backend,
      audit: metrics.mcp.trail(options.audit, options.mcp?.taskName ?? null),
    });
  }

  counted(counts: Counts): void {
    for (const take of this.#waiting) take(counts);
  }

  ended(reason: string, hostcalls: Counts): void {
    this.#unsubscribe();
    this.#guest.ended(reason, hostcalls);
    this.counted({});
  }

  #count(): Promise<Counts> {
    return new Promise((resolve) => {
      const take = (counts: Counts) => {
        clearTimeout(timer);
        this.#waiting.delete(take);
        resolve(counts);
      };
      const timer = setTimeout(() => take({}), COUNT_TIMEOUT_MS);
      this.#waiting.add(take);
      this.#ask();
    });
  }
}
