import type { ServedMetrics } from './metrics-endpoint.ts';

export type { ServedMetrics } from './metrics-endpoint.ts';

/**
 * Instruments for runs, served for Prometheus at `http://ADDRESS/metrics` until they are closed. `address` is HOST:PORT,
 * or :PORT for this machine only (:0: any free port).
 * @throws ConfigError if nothing can listen there
 */
export async function serveMetrics(address: string, name = 'serveMetrics'): Promise<ServedMetrics> {
  // OpenTelemetry takes longer to load than a small guest takes to run.
  const { openMetricsEndpoint } = await import('./metrics-endpoint.ts');
  return openMetricsEndpoint(address, name);
}
