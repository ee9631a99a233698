import type { LimitSpec } from '../../protocol/limits.ts';
import { nodeLimitSpecs } from '../host/node-limits.ts';

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
    doc: 'a process on a node that is silent for longer is forgotten',
  },
  max_nodes: { default: 1_000, min: 1, max: 100_000, doc: 'machines whose reports are kept; more are refused' },
  max_connections: {
    default: 4_096,
    min: 8,
    max: 100_000,
    doc: 'open connections of each side, gRPC and HTTP; a further one takes the place of one that is idle',
  },
  max_connections_per_peer: {
    default: 1_024,
    min: 1,
    max: 100_000,
    doc: 'the same for one peer address',
  },
  idle_connection_ms: {
    default: 60_000,
    min: 100,
    max: 3_600_000,
    doc: 'a gRPC connection without a call is closed after this time',
  },
  max_calls: { default: 8_192, min: 1, max: 1_000_000, doc: 'gRPC calls under way, watches included' },
  max_calls_per_peer: { default: 4_096, min: 1, max: 1_000_000, doc: 'the same for one peer address' },
  max_calls_per_connection: { default: 256, min: 1, max: 10_000, doc: 'the same for one connection' },
  max_anonymous_calls: {
    default: 512,
    min: 1,
    max: 100_000,
    doc: 'gRPC calls under way without a valid token, watches of the health service included',
  },
  max_anonymous_calls_per_peer: { default: 64, min: 1, max: 100_000, doc: 'the same for one peer address' },
  anonymous_calls_per_second: {
    default: 100,
    min: 1,
    max: 1_000_000,
    doc: 'gRPC calls and HTTP requests without a valid token that one peer address may begin; one that begins more is cut off until it is quiet',
  },
  connections_per_second: {
    default: 500,
    min: 1,
    max: 1_000_000,
    doc: 'connections that one peer address may open; more are closed at once',
  },
  max_answer_bytes: {
    default: 268_435_456,
    min: 1_048_576,
    max: 17_179_869_184,
    doc: 'bytes of answers that wait for their readers; a list that many wait for counts once',
  },
  max_answer_bytes_per_peer: {
    default: 67_108_864,
    min: 1_048_576,
    max: 17_179_869_184,
    doc: 'the same for one peer address; one answer may be larger',
  },
  slow_reader_ms: {
    default: 20_000,
    min: 100,
    max: 600_000,
    doc: 'a reader that takes nothing of its answer for this time is cut off',
  },
  approval_wait_ms: {
    default: 24 * 3_600_000,
    min: 100,
    max: 21 * 24 * 3_600_000,
    doc: 'how long a call waits for somebody to decide about it before it is denied',
  },
  approval_grant_ms: {
    default: 10 * 60_000,
    min: 100,
    max: 24 * 3_600_000,
    doc: 'how long a yes may wait for its call, counted from the decision',
  },
  approval_kept_grant_ms: {
    default: 7 * 24 * 3_600_000,
    min: 100,
    max: 21 * 24 * 3_600_000,
    doc: 'the same for a run of a node, which may be parked, or whose node may be away',
  },
  approval_keep_ms: {
    default: 30 * 24 * 3_600_000,
    min: 0,
    max: 10 * 366 * 24 * 3_600_000,
    doc: 'how long requests are kept after their end; the trail keeps the evidence',
  },
  max_approvals: {
    default: 10_000,
    min: 1,
    max: 1_000_000,
    doc: 'requests that are kept after their end; the oldest go first',
  },
  max_waiting_approvals: {
    default: 1_000,
    min: 1,
    max: 100_000,
    doc: 'requests that wait for a decision; more are refused, and their calls denied',
  },
  max_tasks: {
    default: 10_000,
    min: 1,
    max: 100_000,
    doc: 'tasks, and removed ones whose numbers are kept; more are refused',
  },
  kept_task_revisions: {
    default: 100,
    min: 2,
    max: 1_000,
    doc: 'revisions that are kept of a task; the oldest go first, never the live one',
  },
  removed_task_keep_ms: {
    default: 30 * 24 * 3_600_000,
    min: 0,
    max: 10 * 366 * 24 * 3_600_000,
    doc: 'how long the revisions of a removed task are kept, for the runs that have them',
  },
  max_blob_bytes: {
    default: 16 * 1024 * 1024 * 1024,
    min: 64 * 1024,
    max: 1024 * 1024 * 1024 * 1024,
    doc: 'bytes of all modules together; a further one is refused as on a full disk',
  },
  unused_blob_keep_ms: {
    default: 3_600_000,
    min: 0,
    max: 366 * 24 * 3_600_000,
    doc: 'how long a module is kept that no revision has: it is put before its task',
  },
  max_queued: {
    ...nodeLimitSpecs.max_queued,
    doc: 'with `--queue`: runs that may wait or run, where this registry makes the stream of them; a further one is told 429',
  },
  shutdown_ms: { default: 5_000, min: 0, max: 600_000, doc: 'time for requests under way when the registry ends' },
} as const satisfies Record<string, LimitSpec>;

export type SmsLimitName = keyof typeof smsLimitSpecs;
export type SmsLimits = Readonly<Record<SmsLimitName, number>>;
