/**
 * What the instruments of a process say, as OpenTelemetry collects it. Its own type comes with a package that an install
 * of this one does not bring, and whoever embeds it only hands this on.
 */
export interface CollectedMetrics {
  readonly resource: object;
  readonly scopeMetrics: readonly object[];
}

export type CollectMetrics = () => Promise<CollectedMetrics>;
