import type { Tracer } from './span.ts';
import { type SpanContext, traceOfRun, traceparentOf } from './trace-context.ts';

/** What is kept with a new run: what it is a part of, or where nobody said, its own trace. */
export function traceparentOfRun(tracer: Tracer, run: string, by: SpanContext | null): string {
  if (by !== null) return traceparentOf(by);
  const ids = traceOfRun(run);
  return traceparentOf({ ...ids, isSampled: tracer.samples(ids.traceId, null) });
}
