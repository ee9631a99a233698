import type { LimitSpec } from '../../runtime/port/limits.ts';

const MIB = 1024 * 1024;
// setTimeout ends at about 24 days, and no answer takes a day.
const DAY_MS = 86_400_000;

/** The bounds of one `[backends.<name>]` table of kind openai, same names. */
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
  // An answer is held as one string, and V8's longest is about 512 MiB.
  max_response_bytes: {
    default: 32 * MIB,
    min: 1,
    max: 256 * MIB,
    doc: 'maximum size of a response, including the framing of a stream',
  },
} as const satisfies Record<string, LimitSpec>;

export type BackendLimitName = keyof typeof backendLimitSpecs;
