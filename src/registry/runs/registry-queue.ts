import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../base/backoff.ts';
import { errorText } from '../../base/error-text.ts';
import { ConfigError } from '../../config/config-error.ts';
import type { RegistryQueueConfig } from '../../config/registry/registry-config.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { NatsSetupError } from '../../server/queue/nats/nats-errors.ts';
import type { QueueFacts } from '../../server/queue/run-queue.ts';
import type { KeptRuns } from '../../server/routes/run-route.ts';

/** How long a start waits for the queue; then the registry serves, and runs follow. */
const FIRST_MS = 5_000;
const RETRIES = { firstMs: 500, maxMs: 15_000 };
const RETRY_AFTER_S = '5';

/** A connection through which nothing comes is left after this time. */
const MAX_SILENCE_MS = 30_000;

export interface RegistryQueueOptions {
  readonly maxRuns: number;
  /** Where the config has the credentials, for messages. @default nats.creds */
  readonly credsField?: string | undefined;
  readonly log: ServiceLog;
}

/**
 * The queue of a registry. Nodes need the registry also where the queue is away: it is served without, and the queue is
 * looked for until it is there.
 */
export class RegistryQueue {
  readonly #queue: RegistryQueueConfig;
  readonly #options: RegistryQueueOptions;
  readonly #closed = new AbortController();
  #kept: KeptRuns | null = null;
  #problem = 'connecting';
  #opening: Promise<void> = Promise.resolve();

  private constructor(queue: RegistryQueueConfig, options: RegistryQueueOptions) {
    this.#queue = queue;
    this.#options = options;
  }

  /** @throws Error where it is there, and is not what the config says */
  static async open(queue: RegistryQueueConfig, options: RegistryQueueOptions): Promise<RegistryQueue> {
    const made = new RegistryQueue(queue, options);
    const first = made.#open();
    const failed = first.then(
      () => null,
      (error: unknown) => error,
    );
    const late = new AbortController();
    const waited = delay(FIRST_MS, 'late' as const, { signal: late.signal }).catch(() => null);
    const outcome = await Promise.race([failed, waited]);
    late.abort();
    if (isWrong(outcome)) throw outcome;
    if (outcome !== null) made.#opening = made.#keepOpening(first);
    return made;
  }

  /** @throws HttpProblem where it cannot be reached now */
  get kept(): KeptRuns {
    if (this.#kept !== null) return this.#kept;
    const detail = `the run queue is unreachable: ${this.#problem}`;
    throw new HttpProblem(503, 'queue-unavailable', detail, { headers: { 'retry-after': RETRY_AFTER_S } });
  }

  /** Null: it cannot be reached now. */
  facts(): QueueFacts | null {
    return this.#kept?.runs.facts() ?? null;
  }

  /** Whether runs can be submitted now. */
  get isAvailable(): boolean {
    return this.#kept !== null && this.#kept.runs.problem() === null;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#opening;
    await this.#kept?.runs.close();
  }

  /** Loaded only where there is a queue. */
  async #open(): Promise<void> {
    const { servers, tls, ca, identity, creds, replicas, patienceMs, submitTimeoutMs } = this.#queue;
    const { maxRuns, credsField, log } = this.#options;
    const [{ openNats }, { NatsRuns }, { NatsJournals }, { NatsEvents }] = await Promise.all([
      import('../../server/queue/nats/connect.ts'),
      import('../../server/queue/nats/nats-runs.ts'),
      import('../../server/queue/nats/nats-journals.ts'),
      import('../../server/queue/nats/nats-events.ts'),
    ]);
    const onStatus = (status: string) => log('warn', 'nats', { status });
    const known = { name: 'spear-sms', silenceMs: MAX_SILENCE_MS, onStatus };
    const address = { servers, tls, ca, identity, creds, credsField, ...known };
    const runs = await openNats(address, (nc) => NatsRuns.open(nc, { replicas, maxRuns, patienceMs, submitTimeoutMs }));
    if (this.#closed.signal.aborted) return runs.close();
    this.#kept = { runs, journals: new NatsJournals(runs.parts), events: new NatsEvents(runs.parts) };
    log('info', 'queue', { servers: servers.join(','), replicas });
  }

  /** Until it is there, or nobody wants it any more. */
  async #keepOpening(first: Promise<void>): Promise<void> {
    const { signal } = this.#closed;
    let opening = first;
    for (let failures = 1; ; failures++) {
      try {
        return await opening;
      } catch (error) {
        this.#problem = errorText(error);
        if (failures === 1) this.#options.log('error', 'queue', { problem: this.#problem });
        await delay(backoffMs(RETRIES, failures, Math), undefined, { signal, ref: false }).catch(() => {});
        if (signal.aborted) return;
        opening = this.#open();
      }
    }
  }
}

/** Waiting does not mend it. */
const isWrong = (error: unknown) => error instanceof ConfigError || error instanceof NatsSetupError;
