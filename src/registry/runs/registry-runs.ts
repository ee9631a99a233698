import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../base/errors.ts';
import { backoffMs } from '../../base/timing.ts';
import { ConfigError } from '../../config/config-error.ts';
import type { RegistryQueueConfig } from '../../config/registry/registry-config.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, identityOf } from '../../server/http/route.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { NatsSetupError } from '../../server/queue/nats/nats-errors.ts';
import type { QueueFacts } from '../../server/queue/run-queue.ts';
import { runStatuses } from '../../server/records/run.ts';
import { RUN_PATH, type RunBackend, type RunBackends, runOf } from '../../server/routes/run-route.ts';
import { type RunRoutesDeps, runRoutes } from '../../server/routes/run-routes.ts';

export interface RegistryRuns {
  readonly backends: RunBackends;
  /** Totals of all queues. Null: no queue is configured or available. */
  facts(): QueueFacts | null;
  /** Whether all queues accept runs. Null: no queue is configured. */
  isAvailable(): boolean | null;
  close(): Promise<void>;
}

/** Connects to the run queues: one NATS account per configured namespace, and one for all others. @throws Error */
export async function openRegistryRuns(
  queue: RegistryQueueConfig | null,
  options: RegistryQueueOptions,
): Promise<RegistryRuns> {
  const started = 'this registry does not accept runs: it was started without --queue; submit to a node (spear --node)';
  if (queue === null)
    return { backends: () => noQueue(started), facts: () => null, isAvailable: () => null, close: async () => {} };
  const open: RegistryQueue[] = [];
  const close = async () => {
    await Promise.all(open.map((one) => one.close()));
  };
  const opened = async (account: RegistryQueueConfig, credsField?: string) => {
    const made = await RegistryQueue.open(account, { ...options, credsField });
    open.push(made);
    return made;
  };
  const { creds: ofAll, accounts } = queue;
  const none = (namespace = '') => `the namespace ${namespace} has no NATS account (nats.accounts, nats.creds)`;
  try {
    const shared = ofAll === null && accounts.size > 0 ? null : await opened(queue);
    const own = new Map<string | undefined, RegistryQueue>();
    for (const [name, creds] of accounts) own.set(name, await opened({ ...queue, creds }, `nats.accounts.${name}`));
    const backends: RunBackends = (namespace) => (own.get(namespace) ?? shared ?? noQueue(none(namespace))).backend;
    const isAvailable = () => open.every((one) => one.isAvailable);
    return { backends, facts: () => open.map((one) => one.facts()).reduce(added, null), isAvailable, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function added(sum: QueueFacts | null, facts: QueueFacts | null): QueueFacts | null {
  if (sum === null || facts === null) return sum ?? facts;
  const byStatus = Object.fromEntries(runStatuses.map((one) => [one, sum.byStatus[one] + facts.byStatus[one]]));
  const ages = [sum.oldestQueuedMs, facts.oldestQueuedMs].filter((age) => age !== null);
  return {
    byStatus: byStatus as QueueFacts['byStatus'],
    oldestQueuedMs: ages.length === 0 ? null : Math.max(...ages),
  };
}

function noQueue(why: string): never {
  throw new HttpProblem(409, 'no-queue', why);
}

/** The run API of a node. User streams exist only on nodes: these routes name the node in their error. */
export function registryRunRoutes(deps: RunRoutesDeps): Route[] {
  const routes = runRoutes(deps).map(
    ({ run, ...route }): Route => ({
      ...route,
      namespaced: true,
      run: (call) => run({ ...call, identity: identityOf(call) }),
    }),
  );
  const elsewhere = { needs: 'submit', namespaced: true } as const;
  return [
    ...routes,
    {
      ...elsewhere,
      method: 'POST',
      path: `${RUN_PATH}/streams/session`,
      run: async (call: HttpCall) => {
        const { node, status } = await runOf(deps.backends(call.params.namespace).runs, call);
        throw streamsElsewhere(node === null ? `; the run is ${status}` : `: connect to ${node}`);
      },
    },
    {
      ...elsewhere,
      method: 'GET',
      path: '/api/v1/executions/{id}/streams/ws',
      run: async () => {
        throw streamsElsewhere('; GET /v1/namespaces/…/runs/{id} returns the node');
      },
    },
  ];
}

function streamsElsewhere(more: string): HttpProblem {
  const detail = `user streams are served by the node that runs the run, not by the registry${more}`;
  return new HttpProblem(409, 'streams-elsewhere', detail);
}

/** Time that the start waits for the queue. Then the registry serves without it and keeps connecting. */
const FIRST_MS = 5_000;
const RETRIES = { firstMs: 500, maxMs: 15_000 };
const RETRY_AFTER_S = '5';

/** Time without traffic after which a connection is given up. */
const MAX_SILENCE_MS = 30_000;

export interface RegistryQueueOptions {
  readonly maxRuns: number;
  /** Config key of the credentials, for error messages. @default nats.creds */
  readonly credsField?: string | undefined;
  readonly log: ServiceLog;
}

/**
 * Connection to one run queue, retried until it succeeds: nodes need the registry also while the queue is unavailable.
 */
export class RegistryQueue {
  readonly #queue: RegistryQueueConfig;
  readonly #options: RegistryQueueOptions;
  readonly #closed = new AbortController();
  #backend: RunBackend | null = null;
  #problem = 'connecting';
  #opening: Promise<void> = Promise.resolve();

  private constructor(queue: RegistryQueueConfig, options: RegistryQueueOptions) {
    this.#queue = queue;
    this.#options = options;
  }

  /** @throws Error if the queue contradicts the config; retrying would not help */
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

  /** @throws HttpProblem 503 while the queue is unreachable */
  get backend(): RunBackend {
    if (this.#backend !== null) return this.#backend;
    const detail = `the run queue is unreachable: ${this.#problem}`;
    throw new HttpProblem(503, 'queue-unavailable', detail, { headers: { 'retry-after': RETRY_AFTER_S } });
  }

  /** Null while the queue is unreachable. */
  facts(): QueueFacts | null {
    return this.#backend?.runs.facts() ?? null;
  }

  /** Whether the queue accepts runs now. */
  get isAvailable(): boolean {
    return this.#backend !== null && this.#backend.runs.problem() === null;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#opening;
    await this.#backend?.runs.close();
  }

  /** The NATS client is loaded only if a queue is configured. */
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
    this.#backend = { runs, journals: new NatsJournals(runs.parts), events: new NatsEvents(runs.parts) };
    log('info', 'queue', { servers: servers.join(','), replicas });
  }

  /** Retries until the queue is open or closed. */
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

/** Errors that a retry cannot fix. */
const isWrong = (error: unknown) => error instanceof ConfigError || error instanceof NatsSetupError;
