/** How a collector is spoken to. */
export const otlpProtocols = ['http/protobuf', 'http/json'] as const;
export type OtlpProtocol = (typeof otlpProtocols)[number];

export interface TelemetryTable {
  readonly endpoint?: string | undefined;
  readonly protocol?: OtlpProtocol | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly traces?: boolean | undefined;
  readonly metrics?: boolean | undefined;
  readonly sample_ratio?: number | undefined;
  readonly service_name?: string | undefined;
  readonly resource?: Readonly<Record<string, string>> | undefined;
  readonly timeout_ms?: number | undefined;
  readonly metric_interval_ms?: number | undefined;
  readonly span_delay_ms?: number | undefined;
  readonly max_queued_spans?: number | undefined;
}

export const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';

export const headerVariables = [
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
  'OTEL_EXPORTER_OTLP_METRICS_HEADERS',
] as const;

/** Whether traces or metrics may go somewhere. A process of which nobody wants any pays for this look and for nothing else. */
export function isCollectorNamed(table: TelemetryTable | undefined, env: NodeJS.ProcessEnv): boolean {
  const named = env[ENDPOINT] || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT;
  return (!!named || table?.endpoint !== undefined) && env.OTEL_SDK_DISABLED?.toLowerCase() !== 'true';
}

/** Variables of which no record of an MCP server may see anything. */
export function telemetryKeyVariables(table: TelemetryTable | undefined): string[] {
  const named = Object.values(table?.headers ?? {}).flatMap((reference) =>
    reference.startsWith('env:') ? [reference.slice('env:'.length)] : [],
  );
  return [...headerVariables, ...named];
}
