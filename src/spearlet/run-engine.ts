import type { CompiledHostConfig } from '../config/host/host-config.ts';
import { queueAddress } from '../config/host/nats.ts';
import type { NodeFiles } from '../config/node/paths.ts';
import { EmbeddedQueue } from '../queue/embedded/embedded-queue.ts';
import type { EventSender } from '../queue/nats/nats-events.ts';
import type { Claim, RunQueue } from '../queue/run-queue.ts';
import type { ServiceLog } from '../sms/service-log.ts';
import { AllRunEvents, type EventSource } from './run-events.ts';
import { FileJournals, type RunJournals } from './run-journals.ts';

/** What keeps the runs of a node, or of all nodes of a cluster. */
export interface RunEngine {
  readonly queue: RunQueue;
  readonly journals: RunJournals;
  /** Of the runs of this node. */
  readonly events: AllRunEvents;
  /** Of all runs that can be asked for here. */
  readonly allEvents: EventSource;
  /** Takes the events of a run for those who follow it elsewhere; null: nobody does. */
  readonly sendEvents: ((claim: Claim) => EventSender) | null;
}

export interface EngineOptions {
  readonly host: CompiledHostConfig;
  readonly files: NodeFiles;
  /** `nats://…`; null: this node's own. */
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
  return { queue, journals: new FileJournals(files.journals, key), events, allEvents: events, sendEvents: null };
}

/** Loaded only where there is a cluster. */
async function openCluster({ host, log }: EngineOptions, address: string, events: AllRunEvents): Promise<RunEngine> {
  const { nats, node } = host;
  const { servers, tls, replicas } = queueAddress(address, '--queue', nats);
  const [{ openNats }, { ClusterJournals }, { ClusterEvents }] = await Promise.all([
    import('../queue/nats/connect.ts'),
    import('./cluster-journals.ts'),
    import('./cluster-events.ts'),
  ]);
  const onStatus = (status: string) => log('warn', 'nats', { status });
  const engine = await openNats(
    { servers, tls, ca: nats.ca, creds: nats.creds?.() ?? null, name: node.name, onStatus },
    { replicas, maxRuns: node.limits.max_queued, leaseMs: node.limits.lease_ms, patienceMs: nats.patienceMs },
  );
  log('info', 'queue', { servers: servers.join(','), replicas });
  return {
    queue: engine.queue,
    journals: new ClusterJournals(engine.journals, host.journal.key?.() ?? null),
    events,
    allEvents: new ClusterEvents(engine.events),
    sendEvents: (claim) => engine.events.sender(claim),
  };
}
