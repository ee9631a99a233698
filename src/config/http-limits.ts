/** Bounds of an HTTP listener: `node.NAME` of a node, `limits.NAME` of a registry. */
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
