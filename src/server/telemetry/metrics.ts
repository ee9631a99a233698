import type { MeterProvider } from '@opentelemetry/api';
import type { CollectMetrics } from './collected-metrics.ts';
import { GuestMetrics } from './guest-metrics.ts';
import { McpMetrics } from './mcp-metrics.ts';

/** The instruments of this process. The OpenTelemetry packages themselves are the caller's to load. */
export interface Metrics {
  readonly mcp: McpMetrics;
  readonly guests: GuestMetrics;
  /** What they say, for whoever sends that somewhere; null: the provider sees to it. */
  readonly collect: CollectMetrics | null;
}

/** Makes the instruments with a program's own meter provider; whoever reads from that provider decides where they go. */
export function createMetrics(
  provider: Pick<MeterProvider, 'getMeter'>,
  collect: CollectMetrics | null = null,
): Metrics {
  const meter = provider.getMeter('spear');
  return Object.freeze({ mcp: new McpMetrics(meter), guests: new GuestMetrics(meter), collect });
}
