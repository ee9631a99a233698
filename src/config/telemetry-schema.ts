import { z } from 'zod';
import { isSecretReference, SECRET_REFERENCE_HELP } from '../server/secrets/secret.ts';
import { otlpProtocols } from './collector-named.ts';
import { strictTable } from './strict-table.ts';
import { telemetryLimitSpecs } from './telemetry.ts';

const text = z.string().min(1);
const secretReference = z.string().refine(isSecretReference, SECRET_REFERENCE_HELP);

/** Where traces and metrics go, of a node and of a registry. */
export const telemetryTable = strictTable({
  endpoint: text.optional(),
  protocol: z.enum(otlpProtocols).optional(),
  headers: z.record(z.string(), secretReference).optional(),
  traces: z.boolean().optional(),
  metrics: z.boolean().optional(),
  sample_ratio: z.number().min(0).max(1).optional(),
  service_name: text.optional(),
  resource: z.record(text, text).optional(),
  timeout_ms: limit('timeout_ms'),
  metric_interval_ms: limit('metric_interval_ms'),
  span_delay_ms: limit('span_delay_ms'),
  max_queued_spans: limit('max_queued_spans'),
});

function limit(name: keyof typeof telemetryLimitSpecs) {
  return z.int().min(telemetryLimitSpecs[name].min).max(telemetryLimitSpecs[name].max).optional();
}
