import { errorText } from '../base/errors.ts';
import type { NodeFiles } from '../config/directories.ts';
import type { CompiledHostConfig } from '../config/host/host-config.ts';
import { queueAddress } from '../config/nats.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import { EmbeddedQueue } from '../server/queue/embedded/embedded-queue.ts';
import type { EventSender } from '../server/queue/nats/nats-events.ts';
import { AllRunEvents, type RunEventSource } from '../server/queue/run-events.ts';
import type { Claim, RunQueue } from '../server/queue/run-queue.ts';
import { FileJournals, type RunJournals } from './run-journals.ts';

/** Storage of runs: embedded in the node, or shared by the nodes of a cluster. */
export interface RunEngine {
  readonly queue: RunQueue;
  readonly journals: RunJournals;
  /** Events of the runs on this node. */
  readonly events: AllRunEvents;
  /** Events of all runs that clients can follow here. */
  readonly allEvents: RunEventSource;
  /** Publishes the events of a run for clients of other nodes; null: there are none. */
  readonly sendEvents: ((claim: Claim) => EventSender) | null;
  /** Writes a consistent copy of the queue's file; null: the runs are in NATS. */
  readonly backup: ((path: string) => Promise<void>) | null;
}

export interface EngineOptions {
  readonly host: CompiledHostConfig;
  readonly files: NodeFiles;
  /** `nats://…`; null: an embedded queue. */
  readonly queue: string | null;
  readonly log: ServiceLog;
}

/** @throws ConfigError, Error */
export async function openRunEngine(options: EngineOptions): Promise<RunEngine> {
  const { host, files } = options;
  const { limits } = host.node;
  const key = host.journal.key?.() ?? null;
  const events = new AllRunEvents();
  if (options.queue !== null) return openCluster(options, options.queue, events);
  const queue = new EmbeddedQueue(files.runs, { maxQueued: limits.max_queued });
  const journals = new FileJournals(files.journals, key);
  const backup = (path: string) => queue.backup(path);
  return { queue, journals, events, allEvents: events, sendEvents: null, backup };
}

/** Loaded only for a cluster. */
async function openCluster({ host, log }: EngineOptions, address: string, events: AllRunEvents): Promise<RunEngine> {
  const { nats, node } = host;
  const { servers, tls, replicas } = queueAddress(address, '--queue', nats);
  const [{ openNats }, { NatsQueue }, { NatsEvents }, { EventSender }, { ClusterJournals }] = await Promise.all([
    import('../server/queue/nats/connect.ts'),
    import('../server/queue/nats/nats-queue.ts'),
    import('../server/queue/nats/nats-events.ts'),
    import('../server/queue/nats/nats-events.ts'),
    import('./cluster-journals.ts'),
  ]);
  const onStatus = (status: string) => log('warn', 'nats', { status });
  const { max_queued: maxRuns, lease_ms: leaseMs } = node.limits;
  const { ca, identity, creds } = nats;
  const queue = await openNats(
    // A silent connection is replaced when leases expire that could not be renewed over it.
    { servers, tls, ca, identity, creds, name: `spearlet ${node.name}`, silenceMs: leaseMs, onStatus },
    (nc) =>
      NatsQueue.open(nc, {
        replicas,
        maxRuns,
        leaseMs,
        patienceMs: nats.patienceMs,
        submitTimeoutMs: nats.submitTimeoutMs,
      }),
  );
  log('info', 'queue', { servers: servers.join(','), replicas });
  return {
    queue,
    journals: new ClusterJournals(queue, host.journal.key?.() ?? null),
    events,
    allEvents: new NatsEvents(queue.parts),
    sendEvents: (claim) => new EventSender(queue, claim),
    backup: null,
  };
}

const EVERY_MS = 10 * 60_000;
const HOUR_MS = 3_600_000;

/** Removes runs that ended before the retention time, with their results and journals, at the start and periodically. */
export class Retention {
  readonly #forget: () => Promise<void>;
  readonly #timer: NodeJS.Timeout;
  #last: Promise<void>;

  constructor(queue: RunQueue, journals: RunJournals, hours: number, log: ServiceLog, now: () => number = Date.now) {
    this.#forget = async () => {
      let forgotten = 0;
      try {
        for (;;) {
          const gone = await queue.forget(now() - hours * HOUR_MS);
          for (const { namespace, id } of gone) await journals.remove(namespace, id);
          forgotten += gone.length;
          if (gone.length === 0) break;
        }
        if (forgotten > 0) log('info', 'forgotten', { runs: forgotten });
      } catch (error) {
        log('error', 'not_forgotten', { message: errorText(error) });
      }
    };
    this.#last = this.#forget();
    this.#timer = setInterval(() => {
      this.#last = this.#last.then(this.#forget);
    }, EVERY_MS).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#last;
  }
}
