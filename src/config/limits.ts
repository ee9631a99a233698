import type { LimitSpec } from '../runtime/port/limits.ts';

/*
 * Limits of backends, HTTP listeners, nodes and registries: default, range, unit (in the name) and description. The config
 * schemas and the reference documentation are generated from these tables. Limits of a run are in runtime/port/limits.ts,
 * limits of one config table in the file of that table.
 */

const MIB = 1024 * 1024;
// setTimeout supports at most about 24 days.
const DAY_MS = 86_400_000;

/** Limits of one `[backends.<name>]` table of kind openai, same names. */
export const backendLimitSpecs = {
  timeout_ms: {
    default: 600_000,
    min: 1,
    max: DAY_MS,
    doc: 'deadline of one request to the model, including retries and the delays between them',
  },
  connect_timeout_ms: {
    default: 10_000,
    min: 1,
    max: DAY_MS,
    doc: 'timeout for opening a connection, including the TLS handshake',
  },
  max_retries: {
    default: 3,
    min: 0,
    max: 10,
    doc: 'retries on 429, 502, 503, 504 and connection errors; never after a response has started',
  },
  // A response is one string, and V8's longest string is about 512 MiB.
  max_response_bytes: {
    default: 32 * MIB,
    min: 1,
    max: 256 * MIB,
    doc: 'maximum size of a response, including the framing of a stream',
  },
} as const satisfies Record<string, LimitSpec>;

export type BackendLimitName = keyof typeof backendLimitSpecs;

/** Limits of an HTTP listener: `node.NAME` of a node, `limits.NAME` of a registry. */
export const httpLimitSpecs = {
  max_connections: {
    default: 4_096,
    min: 8,
    max: 100_000,
    doc: 'open connections of each listener; a further connection replaces an idle one',
  },
  max_connections_per_peer: {
    default: 1_024,
    min: 1,
    max: 100_000,
    doc: 'open connections per peer address',
  },
  reserved_connections: {
    default: 64,
    min: 0,
    max: 100_000,
    doc: 'HTTP connections, of all and of each peer address, that streams, waiting requests and uploads leave free for probes and short requests; at most half of them',
  },
  requests_per_caller: {
    default: 512,
    min: 1,
    max: 100_000,
    doc: 'HTTP requests in flight per caller, streams included; more get 429',
  },
  max_streams: { default: 1_024, min: 1, max: 100_000, doc: 'open event streams and WebSockets; more get 429' },
  streams_per_caller: {
    default: 128,
    min: 1,
    max: 100_000,
    doc: 'open event streams and WebSockets per caller; more get 429',
  },
  uploads_per_caller: {
    default: 16,
    min: 1,
    max: 10_000,
    doc: 'request bodies above 64 KiB that are being received per caller; more get 429',
  },
  max_upload_bytes: {
    default: 512 * 1024 * 1024,
    min: 1024 * 1024,
    max: 64 * 1024 * 1024 * 1024,
    doc: 'received bytes of incomplete request bodies above 64 KiB, and four times those of one caller; more get 429. One body may be larger while there is room',
  },
  upload_bytes_per_second: {
    default: 4_096,
    min: 0,
    max: 1024 * 1024 * 1024,
    doc: 'minimum rate of a request body, after 5 s; a slower one gets 408',
  },
} as const satisfies Record<string, { default: number; min: number; max: number; doc: string }>;

export type HttpLimits = Readonly<Record<keyof typeof httpLimitSpecs, number>>;

/** Limits of a node: `node.NAME` in the config file. */
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

/** Limits of a registry: `kept_changes` and `max_bytes` in `[store]`, the others in `[limits]`. */
export const registryLimitSpecs = {
  kept_changes: {
    default: 10_000,
    min: 1,
    max: 10_000_000,
    doc: 'changes retained for watchers that reconnect; a watcher that missed more lists again',
  },
  max_bytes: {
    default: 4 * 1024 * 1024 * 1024,
    min: 64 * 1024,
    max: 1024 * 1024 * 1024 * 1024,
    doc: 'maximum size of the database file; a change that needs more is rejected, as on a full disk',
  },
  heartbeat_ms: {
    default: 10_000,
    min: 100,
    max: 600_000,
    doc: 'interval of heartbeats on a watch without events',
  },
  watcher_queue: {
    default: 1_024,
    min: 1,
    max: 1_000_000,
    doc: 'events queued for one watcher; a slower watcher is disconnected and lists again',
  },
  max_watchers: { default: 4_096, min: 1, max: 100_000, doc: 'open watches; more are rejected' },
  node_expiry_ms: {
    default: 60_000,
    min: 3_000,
    max: 86_400_000,
    doc: 'a node process that sends no report for this time is removed',
  },
  max_nodes: { default: 1_000, min: 1, max: 100_000, doc: 'machines whose reports are retained; more are rejected' },
  ...httpLimitSpecs,
  idle_connection_ms: {
    default: 60_000,
    min: 100,
    max: 3_600_000,
    doc: 'a gRPC connection without a call is closed after this time',
  },
  max_calls: { default: 8_192, min: 1, max: 1_000_000, doc: 'gRPC calls in flight, watches included' },
  max_calls_per_peer: { default: 4_096, min: 1, max: 1_000_000, doc: 'gRPC calls in flight per peer address' },
  max_calls_per_connection: { default: 256, min: 1, max: 10_000, doc: 'gRPC calls in flight per connection' },
  max_anonymous_calls: {
    default: 512,
    min: 1,
    max: 100_000,
    doc: 'gRPC calls in flight without a valid token, watches of the health service included',
  },
  max_anonymous_calls_per_peer: { default: 64, min: 1, max: 100_000, doc: 'such calls in flight per peer address' },
  anonymous_calls_per_second: {
    default: 100,
    min: 1,
    max: 1_000_000,
    doc: 'gRPC calls and HTTP requests without a valid token per peer address; a peer that sends more is rejected until it slows down',
  },
  connections_per_second: {
    default: 500,
    min: 1,
    max: 1_000_000,
    doc: 'new connections per peer address; more are closed immediately',
  },
  max_answer_bytes: {
    default: 268_435_456,
    min: 1_048_576,
    max: 17_179_869_184,
    doc: 'response bytes buffered for readers; a list that several readers wait for counts once',
  },
  max_answer_bytes_per_peer: {
    default: 67_108_864,
    min: 1_048_576,
    max: 17_179_869_184,
    doc: 'response bytes buffered per peer address; a single response may be larger',
  },
  slow_reader_ms: {
    default: 20_000,
    min: 100,
    max: 600_000,
    doc: 'a reader that reads nothing of its response for this time is disconnected',
  },
  approval_wait_ms: {
    default: 24 * 3_600_000,
    min: 100,
    max: 21 * 24 * 3_600_000,
    doc: 'how long a call waits for a decision before it is denied',
  },
  approval_grant_ms: {
    default: 10 * 60_000,
    min: 100,
    max: 24 * 3_600_000,
    doc: 'how long an approval is valid for its call, counted from the decision',
  },
  approval_kept_grant_ms: {
    default: 7 * 24 * 3_600_000,
    min: 100,
    max: 21 * 24 * 3_600_000,
    doc: 'how long an approval is valid for a run of a node, which may be parked or whose node may be offline',
  },
  approval_keep_ms: {
    default: 30 * 24 * 3_600_000,
    min: 0,
    max: 10 * 366 * 24 * 3_600_000,
    doc: 'how long closed approval requests are retained; the audit log keeps the evidence',
  },
  max_approvals: {
    default: 10_000,
    min: 1,
    max: 1_000_000,
    doc: 'closed approval requests that are retained; the oldest are removed first',
  },
  max_waiting_approvals: {
    default: 1_000,
    min: 1,
    max: 100_000,
    doc: 'pending approval requests; more are rejected and their calls denied',
  },
  max_tasks: {
    default: 10_000,
    min: 1,
    max: 100_000,
    doc: 'tasks, including removed tasks whose revision numbers are retained; more are rejected',
  },
  kept_task_revisions: {
    default: 100,
    min: 2,
    max: 1_000,
    doc: 'revisions retained per task; the oldest are removed first, never the live one',
  },
  removed_task_keep_ms: {
    default: 30 * 24 * 3_600_000,
    min: 0,
    max: 10 * 366 * 24 * 3_600_000,
    doc: 'how long the revisions of a removed task are retained for the runs that use them',
  },
  max_blob_bytes: {
    default: 16 * 1024 * 1024 * 1024,
    min: 64 * 1024,
    max: 1024 * 1024 * 1024 * 1024,
    doc: 'total size of all modules; a further module is rejected, as on a full disk',
  },
  unused_blob_keep_ms: {
    default: 3_600_000,
    min: 0,
    max: 366 * 24 * 3_600_000,
    doc: 'how long a module without a revision is retained; modules are uploaded before their task',
  },
  max_queued: {
    ...nodeLimitSpecs.max_queued,
    doc: 'with `--queue`: queued and running runs, if this registry creates their stream; a further submission fails with 429',
  },
  shutdown_ms: {
    default: 5_000,
    min: 0,
    max: 600_000,
    doc: 'how long requests in flight may take when the registry shuts down',
  },
} as const satisfies Record<string, LimitSpec>;

export type RegistryLimitName = keyof typeof registryLimitSpecs;
export type RegistryLimits = Readonly<Record<RegistryLimitName, number>>;
