import type { ChatBackend } from '../agent/chat/backend.ts';
import { meteredBackend } from '../agent/chat/observed-backend.ts';
import type { Metrics } from '../server/telemetry/metrics.ts';
import type { CompiledRunOptions } from './run-options.ts';

type Counts = Readonly<Record<string, number>>;

/** Metrics of one run: wraps backend and audit sink of its options. Not created without metrics. */
export class RunMetrics {
  readonly #unsubscribe: () => void;
  readonly #guest;
  readonly options: CompiledRunOptions;

  /** `count` reads the hostcalls made so far. */
  constructor(options: CompiledRunOptions, metrics: Metrics, count: () => Counts) {
    this.#guest = metrics.guests.guestStarted(count);
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
      audit: metrics.mcp.countedSink(options.audit, options.mcp?.taskName ?? null),
    });
  }

  ended(reason: string): void {
    this.#unsubscribe();
    this.#guest.ended(reason);
  }
}
