import type { Meter } from '@opentelemetry/api';
import { calls } from '../abi/calls.ts';
import { isJsonObject, type JsonObject } from '../base/json.ts';
import { BoundedLabel } from './labels.ts';
import { LATENCY_MS } from './mcp-metrics.ts';

type Counts = Readonly<Record<string, number>>;

/** Names of backends come from the host's config, outcomes from this project; a guest can write a backend's name. */
const MAX_BACKENDS = 32;
const MAX_OUTCOMES = 64;

/** What of a provider's `usage` is counted: parts that add up to all tokens. */
const tokenKinds = { prompt_tokens: 'prompt', completion_tokens: 'completion' } as const;

/** A guest that runs, as far as metrics look at it. */
export interface MeteredGuest {
  ended(reason: string, hostcalls: Counts): void;
}

/** What guests do: their hostcalls, their own tools and their models. */
export class GuestMetrics {
  readonly #backends = new BoundedLabel(MAX_BACKENDS);
  readonly #outcomes = new BoundedLabel(MAX_OUTCOMES);
  readonly #finished = new Map<string, number>();
  readonly #running = new Map<object, { readonly read: () => Promise<Counts>; last: Counts }>();
  readonly #instruments;

  constructor(meter: Meter) {
    const latency = { advice: { explicitBucketBoundaries: LATENCY_MS } };
    this.#instruments = {
      started: meter.createCounter('spear_guests_started_total', { description: 'Guests that were started.' }),
      ended: meter.createCounter('spear_guests_ended_total', { description: 'Guests that ended, by reason.' }),
      toolCalls: meter.createCounter('spear_guest_tool_call_total', {
        description: 'Calls of tools inside guests, by outcome.',
      }),
      toolLatency: meter.createHistogram('spear_guest_tool_call_latency_ms', {
        description: 'Time of a call of a tool inside a guest.',
        ...latency,
      }),
      modelCalls: meter.createCounter('spear_model_call_total', {
        description: 'Requests to a model, by backend and outcome.',
      }),
      modelLatency: meter.createHistogram('spear_model_call_latency_ms', {
        description: 'Time of a request to a model, retries included.',
        ...latency,
      }),
      tokens: meter.createCounter('spear_tokens_total', { description: 'Tokens as the backends report them.' }),
    };
    const running = meter.createObservableGauge('spear_guests_running', { description: 'Guests that run.' });
    running.addCallback((result) => result.observe(this.#running.size));
    const hostcalls = meter.createObservableCounter('spear_hostcalls_total', {
      description: 'Hostcalls of all guests.',
    });
    hostcalls.addCallback(async (result) => {
      for (const [call, count] of await this.#hostcalls()) result.observe(count, { call });
    });
  }

  /** `read` asks a running guest for its counts; it may be too busy to answer, then the last ones stand. */
  guestStarted(read: () => Promise<Counts>): MeteredGuest {
    const key = {};
    this.#running.set(key, { read, last: {} });
    this.#instruments.started.add(1);
    return {
      ended: (reason, hostcalls) => {
        const last = this.#running.get(key)?.last ?? {};
        if (!this.#running.delete(key)) return;
        // A guest that had to be stopped reports nothing at its end.
        addUp(this.#finished, Object.keys(hostcalls).length > 0 ? hostcalls : last);
        this.#instruments.ended.add(1, { reason });
      },
    };
  }

  toolCalled(outcome: string, durationMs: number): void {
    this.#instruments.toolCalls.add(1, { outcome: this.#outcomes.value(outcome) });
    this.#instruments.toolLatency.record(durationMs);
  }

  modelAnswered(backend: string, outcome: string, durationMs: number, usage: JsonObject | null): void {
    const labels = { backend: this.#backends.value(backend) };
    this.#instruments.modelCalls.add(1, { ...labels, outcome: this.#outcomes.value(outcome) });
    this.#instruments.modelLatency.record(durationMs, labels);
    if (!isJsonObject(usage)) return;
    for (const [field, kind] of Object.entries(tokenKinds)) {
      const count = usage[field];
      if (typeof count === 'number' && count > 0) this.#instruments.tokens.add(count, { ...labels, kind });
    }
  }

  async #hostcalls(): Promise<Map<string, number>> {
    await Promise.all(
      [...this.#running.values()].map(async (guest) => {
        const counts = await guest.read();
        if (Object.keys(counts).length > 0) guest.last = counts;
      }),
    );
    const sum = new Map(this.#finished);
    for (const { last } of this.#running.values()) addUp(sum, last);
    return sum;
  }
}

const callNames: ReadonlySet<string> = new Set(calls.map(({ name }) => name));

/** The counts come from a thread that runs untrusted code: only names of the call table become labels. */
function addUp(sum: Map<string, number>, counts: Counts): void {
  for (const [call, count] of Object.entries(counts)) {
    if (callNames.has(call)) sum.set(call, (sum.get(call) ?? 0) + count);
  }
}
