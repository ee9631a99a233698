import { httpLimitSpecs } from '../http-limits.ts';

/** One bound of a node. `node.NAME` in the config file. */
export const nodeLimitSpecs = {
  slots: { default: 256, min: 1, max: 20_000, doc: 'concurrent runs' },
  runs_per_caller: { default: 20_000, min: 1, max: 20_000, doc: 'concurrent runs per caller' },
  max_queued: { default: 10_000, min: 1, max: 1_000_000, doc: 'queued runs; a further submission fails with 429' },
  max_subprocesses: {
    default: 256,
    min: 1,
    max: 10_000,
    doc: 'stdio server processes, all tasks together; an idle process is stopped to make room',
  },
  retention_hours: {
    default: 7 * 24,
    min: 24,
    max: 10 * 365 * 24,
    doc: 'how long an ended run is retained, with its input, result and journal',
  },
  drain_ms: {
    default: 30_000,
    min: 0,
    max: 24 * 3_600_000,
    doc: 'how long runs may continue after SIGTERM; the rest resume at the next start',
  },
  lease_ms: {
    default: 30_000,
    min: 1_000,
    max: 600_000,
    doc: 'a node that is silent for longer loses its runs; set the same value on all nodes of a pool',
  },
  namespace_threads: {
    default: 32,
    min: 1,
    max: 1_000,
    doc: 'guest threads beyond one per processor, for namespaces that have none; without a thread, a run returns to the queue',
  },
  park_after_ms: {
    default: 5_000,
    min: 100,
    max: 7 * 24 * 3_600_000,
    doc: 'a run that waits longer, for an approval, a timer or a stream client, is parked and frees its slot until the wait ends',
  },
  ...httpLimitSpecs,
} as const satisfies Record<string, { default: number; min: number; max: number; doc: string }>;

export type NodeLimitName = keyof typeof nodeLimitSpecs;
export type NodeLimits = Readonly<Record<NodeLimitName, number>>;
