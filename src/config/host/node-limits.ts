/** One bound of a node. `node.NAME` in the config file. */
export const nodeLimitSpecs = {
  slots: { default: 256, min: 1, max: 20_000, doc: 'runs at once' },
  runs_per_caller: { default: 20_000, min: 1, max: 20_000, doc: 'runs at once of one caller' },
  max_queued: { default: 10_000, min: 1, max: 1_000_000, doc: 'runs that may wait; a further one is told 429' },
  max_subprocesses: {
    default: 256,
    min: 1,
    max: 10_000,
    doc: 'stdio servers at one time, of all tasks together; an idle one is ended for a new one',
  },
  retention_hours: {
    default: 7 * 24,
    min: 24,
    max: 10 * 365 * 24,
    doc: 'how long a run that has ended is kept, with its input, result and journal',
  },
  drain_ms: {
    default: 30_000,
    min: 0,
    max: 24 * 3_600_000,
    doc: 'how long runs may go on after SIGTERM; then they wait for the next start',
  },
  lease_ms: {
    default: 30_000,
    min: 1_000,
    max: 600_000,
    doc: 'a node that says nothing for so long has lost its runs; the same on all nodes of a pool',
  },
  park_after_ms: {
    default: 5_000,
    min: 100,
    max: 7 * 24 * 3_600_000,
    doc: 'a run that waits longer, for a person, its own sleep or a client, gives up its slot until what it waits for comes',
  },
} as const satisfies Record<string, { default: number; min: number; max: number; doc: string }>;

export type NodeLimitName = keyof typeof nodeLimitSpecs;
export type NodeLimits = Readonly<Record<NodeLimitName, number>>;
