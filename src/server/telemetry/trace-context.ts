/** Identity of a span, as its children name it, in this or another process. */
export interface SpanContext {
  /** 32 and 16 hex digits. */
  readonly traceId: string;
  readonly spanId: string;
  /** Whether its trace is exported. */
  readonly isSampled: boolean;
}

const form = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
const NO_TRACE = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const SAMPLED = 1;

/** Parses a `traceparent` header (W3C Trace Context); null: invalid. */
export function parseTraceparent(text: string | readonly string[] | null | undefined): SpanContext | null {
  if (typeof text !== 'string') return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = form.exec(text.trim()) ?? [];
  // A later version may have more fields; version 00 has none.
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (traceId === NO_TRACE || spanId === NO_SPAN) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

export function traceparentOf({ traceId, spanId, isSampled }: SpanContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

export const newSpanId = (): string => process.getBuiltinModule('node:crypto').randomBytes(8).toString('hex');

/** The ids of a run's trace and of its root span: derived from the run id, so equal for every attempt and every process. */
export function traceOfRun(run: string): Omit<SpanContext, 'isSampled'> {
  const digest = process.getBuiltinModule('node:crypto').hash('sha256', `spear run ${run}`);
  return { traceId: digest.slice(0, 32), spanId: digest.slice(32, 48) };
}
