import type { LimitSpec } from '../../protocol/limits.ts';

/** Bounds of the registry, in its config file: `kept_changes` and `max_bytes` in `[store]`, the others in `[limits]`. */
export const smsLimitSpecs = {
  kept_changes: {
    default: 10_000,
    min: 1,
    max: 10_000_000,
    doc: 'changes kept for watchers that come back; one that was away for longer lists again',
  },
  max_bytes: {
    default: 4 * 1024 * 1024 * 1024,
    min: 64 * 1024,
    max: 1024 * 1024 * 1024 * 1024,
    doc: 'the file does not grow past this; a change that needs more is refused as on a full disk',
  },
  heartbeat_ms: {
    default: 10_000,
    min: 100,
    max: 600_000,
    doc: 'how long a watch may be silent before it says that nothing changed',
  },
  watcher_queue: {
    default: 1_024,
    min: 1,
    max: 1_000_000,
    doc: 'events waiting for one watcher; one that is slower is cut off and lists again',
  },
  max_watchers: { default: 4_096, min: 1, max: 100_000, doc: 'open watches; more are refused' },
  node_expiry_ms: {
    default: 60_000,
    min: 3_000,
    max: 86_400_000,
    doc: 'a node that is silent for longer is forgotten',
  },
  max_nodes: { default: 1_000, min: 1, max: 100_000, doc: 'nodes whose reports are kept; more are refused' },
  shutdown_ms: { default: 5_000, min: 0, max: 600_000, doc: 'time for requests under way when the registry ends' },
} as const satisfies Record<string, LimitSpec>;

export type SmsLimitName = keyof typeof smsLimitSpecs;
export type SmsLimits = Readonly<Record<SmsLimitName, number>>;
