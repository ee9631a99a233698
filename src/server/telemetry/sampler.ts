import type { CompiledSampler } from '../../config/telemetry.ts';
import type { SpanContext } from './trace-context.ts';

/** Of a trace's id, what decides: its last 7 bytes, which every tracer is to draw at random. */
const RANDOM_DIGITS = 14;

/** Whether a trace is sent: what is above it says so, or its id by the ratio, the same in every process. */
export function isSampled(
  { followsParent, ratio }: CompiledSampler,
  traceId: string,
  parent: SpanContext | null,
): boolean {
  if (followsParent && parent !== null) return parent.isSampled;
  if (ratio >= 1) return true;
  if (ratio <= 0) return false;
  const drawn = Number.parseInt(traceId.slice(-RANDOM_DIGITS), 16) / 16 ** RANDOM_DIGITS;
  return drawn >= 1 - ratio;
}
