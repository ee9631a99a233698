import type { MeterProvider } from '@opentelemetry/api';
import { GuestMetrics } from './guest-metrics.ts';
import { McpMetrics } from './mcp-metrics.ts';

/** The instruments of this process. The caller loads the OpenTelemetry packages. */
export interface Metrics {
  readonly mcp: McpMetrics;
  readonly guests: GuestMetrics;
  /** Collects their values for export; null: the provider exports them. */
  readonly collect: CollectMetrics | null;
}

/** Creates the instruments with the program's own meter provider, which decides where they are exported. */
export function createMetrics(
  provider: Pick<MeterProvider, 'getMeter'>,
  collect: CollectMetrics | null = null,
): Metrics {
  const meter = provider.getMeter('spear');
  return Object.freeze({ mcp: new McpMetrics(meter), guests: new GuestMetrics(meter), collect });
}

/**
 * Values of the instruments of a process, as OpenTelemetry collects them. OpenTelemetry's own type is in an optional package,
 * and an embedding program only passes the values on.
 */
export interface CollectedMetrics {
  readonly resource: object;
  readonly scopeMetrics: readonly object[];
}

export type CollectMetrics = () => Promise<CollectedMetrics>;
