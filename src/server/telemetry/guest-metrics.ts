import type { Meter } from '@opentelemetry/api';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { calls } from '../../runtime/abi/calls.ts';
import { BoundedLabel } from './labels.ts';
import { LATENCY_SECONDS } from './mcp-metrics.ts';

type Counts = Readonly<Record<string, number>>;

/** Names of backends come from the host's config, outcomes from this project; a guest can write a backend's name. */
const MAX_BACKENDS = 32;
const MAX_OUTCOMES = 64;

/** Fields of a provider's `usage` that are counted. They add up to all tokens. */
const tokenKinds = { prompt_tokens: 'prompt', completion_tokens: 'completion' } as const;

/** A running guest. */
export interface MeteredGuest {
  ended(reason: string): void;
}

/** Metrics of guests: hostcalls, guest tools and models. */
export class GuestMetrics {
  readonly #backends = new BoundedLabel(MAX_BACKENDS);
  readonly #outcomes = new BoundedLabel(MAX_OUTCOMES);
  readonly #finished = new Map<string, number>();
  /** Each reads the hostcall counts of a running guest. */
  readonly #running = new Set<() => Counts>();
  readonly #instruments;

  constructor(meter: Meter) {
    const latency = { advice: { explicitBucketBoundaries: LATENCY_SECONDS } };
    this.#instruments = {
      started: meter.createCounter('spear_guests_started_total', { description: 'Guests started.' }),
      ended: meter.createCounter('spear_guests_ended_total', { description: 'Guests ended, by reason.' }),
      toolCalls: meter.createCounter('spear_guest_tool_call_total', {
        description: 'Calls of guest tools, by outcome.',
      }),
      toolLatency: meter.createHistogram('spear_guest_tool_call_latency_seconds', {
        description: 'Duration of a guest tool call.',
        ...latency,
      }),
      modelCalls: meter.createCounter('spear_model_call_total', {
        description: 'Model requests, by backend and outcome.',
      }),
      modelLatency: meter.createHistogram('spear_model_call_latency_seconds', {
        description: 'Duration of a model request, including retries.',
        ...latency,
      }),
      tokens: meter.createCounter('spear_tokens_total', { description: 'Tokens as reported by the backends.' }),
    };
    const running = meter.createObservableGauge('spear_guests_running', { description: 'Guests currently running.' });
    running.addCallback((result) => result.observe(this.#running.size));
    const hostcalls = meter.createObservableCounter('spear_hostcalls_total', {
      description: 'Hostcalls made by all guests.',
    });
    hostcalls.addCallback((result) => {
      for (const [call, count] of this.#hostcalls()) result.observe(count, { call });
    });
  }

  /** `count` reads the guest's hostcalls so far; every guest has its own function. */
  guestStarted(count: () => Counts): MeteredGuest {
    this.#running.add(count);
    this.#instruments.started.add(1);
    return {
      ended: (reason) => {
        if (!this.#running.delete(count)) return;
        addUp(this.#finished, count());
        this.#instruments.ended.add(1, { reason });
      },
    };
  }

  toolCalled(outcome: string, durationMs: number): void {
    this.#instruments.toolCalls.add(1, { outcome: this.#outcomes.value(outcome) });
    this.#instruments.toolLatency.record(durationMs / 1000);
  }

  modelAnswered(backend: string, outcome: string, durationMs: number, usage: JsonObject | null): void {
    const labels = { backend: this.#backends.value(backend) };
    this.#instruments.modelCalls.add(1, { ...labels, outcome: this.#outcomes.value(outcome) });
    this.#instruments.modelLatency.record(durationMs / 1000, labels);
    if (!isJsonObject(usage)) return;
    for (const [field, kind] of Object.entries(tokenKinds)) {
      const count = usage[field];
      if (typeof count === 'number' && count > 0) this.#instruments.tokens.add(count, { ...labels, kind });
    }
  }

  #hostcalls(): Map<string, number> {
    const sum = new Map(this.#finished);
    for (const count of this.#running) addUp(sum, count());
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
