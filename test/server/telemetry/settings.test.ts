import { describe, expect, it } from 'vitest';
import { loadHostConfig } from '../../../src/config/host/host-config.ts';
import { compileTelemetry, type TelemetryTable } from '../../../src/config/telemetry.ts';

const file = { path: 'config.toml', folder: '/etc/spear' };

const compile = (env: Record<string, string>, table?: TelemetryTable) =>
  compileTelemetry(table, file, { env, readFile: (path) => `content of ${path}\n` });

describe('the target of traces and metrics', () => {
  it('is unset until a collector is configured, and can be disabled by one setting [telemetry.off]', () => {
    expect(compile({})).toBeNull();
    expect(compile({ OTEL_SERVICE_NAME: 'x' }, { sample_ratio: 0.5 })).toBeNull();
    const endpoint = 'http://127.0.0.1:4318';
    expect(compile({ OTEL_SDK_DISABLED: 'true' }, { endpoint })).toBeNull();
    expect(compile({}, { endpoint, traces: false, metrics: false })).toBeNull();
    expect(compile({ OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'none' }, { endpoint })).toBeNull();
  });

  it('comes from variables, then from the config table [telemetry.settings]', () => {
    const table = {
      endpoint: 'https://file.example/otlp/',
      sample_ratio: 0.25,
      service_name: 'in-file',
      timeout_ms: 500,
    };
    expect(compile({}, table)).toMatchObject({
      ...{ tracesUrl: 'https://file.example/otlp/v1/traces', metricsUrl: 'https://file.example/otlp/v1/metrics' },
      ...{ protocol: 'http/protobuf', serviceName: 'in-file', timeoutMs: 500, metricIntervalMs: 60_000, parent: null },
      sampler: { followsParent: true, ratio: 0.25 },
    });
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://variable.example:4318',
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://metrics.example/push',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_EXPORTER_OTLP_TIMEOUT: '700',
      OTEL_METRIC_EXPORT_INTERVAL: '250',
      OTEL_BSP_SCHEDULE_DELAY: '20',
      OTEL_BSP_MAX_QUEUE_SIZE: '10',
      OTEL_SERVICE_NAME: 'in-variable',
      OTEL_RESOURCE_ATTRIBUTES: 'a=1,b=two%20words',
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.5',
      TRACEPARENT: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    };
    expect(compile(env, table)).toMatchObject({
      ...{ tracesUrl: 'http://variable.example:4318/v1/traces', metricsUrl: 'http://metrics.example/push' },
      ...{ protocol: 'http/json', serviceName: 'in-variable', timeoutMs: 700, metricIntervalMs: 250 },
      ...{ spanDelayMs: 20, maxQueuedSpans: 10, parent: env.TRACEPARENT },
      resource: { a: '1', b: 'two words' },
      sampler: { followsParent: false, ratio: 0.5 },
    });
  });

  it('accepts headers by reference and from variables, as secrets [telemetry.settings]', () => {
    const table = { endpoint: 'http://x', headers: { Authorization: 'env:KEY', 'x-team': 'file:team' } };
    const env = { KEY: 'Bearer of-the-file', OTEL_EXPORTER_OTLP_HEADERS: 'x-key=of%20a%20variable' };
    const headers = compile(env, table)?.headers() ?? new Map();
    expect([...headers].map(([name, value]) => [name, value.reveal()])).toEqual([
      ['authorization', 'Bearer of-the-file'],
      ['x-team', 'content of /etc/spear/team'],
      ['x-key', 'of a variable'],
    ]);
    expect(JSON.stringify([...headers])).not.toContain('of');
  });

  it.each([
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, 'OTEL_EXPORTER_OTLP_ENDPOINT: must be an http:// or https://'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:b@c' }, 'must not contain a user name or password: use headers'],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'expected http/protobuf or http/json, found "grpc"'],
    [{ OTEL_TRACES_EXPORTER: 'zipkin' }, 'OTEL_TRACES_EXPORTER: expected otlp or none, found "zipkin"'],
    [{ OTEL_TRACES_SAMPLER: 'sometimes' }, 'OTEL_TRACES_SAMPLER: expected one of always_on,'],
    [{ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' }, 'expected a number from 0 to 1'],
    [{ OTEL_EXPORTER_OTLP_TIMEOUT: 'soon' }, 'OTEL_EXPORTER_OTLP_TIMEOUT: expected a whole number'],
    [{ OTEL_RESOURCE_ATTRIBUTES: 'no-pair' }, 'OTEL_RESOURCE_ATTRIBUTES: expected NAME=VALUE'],
  ])('refuses %j [telemetry.settings]', (env, why) => {
    expect(() => compile({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', ...env })).toThrow(why);
  });

  it('refuses an invalid header without repeating its value [telemetry.settings]', () => {
    const broken = compile({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_EXPORTER_OTLP_HEADERS: 'a=secret%0Avalue' });
    expect(() => broken?.headers()).toThrow(
      /^OTEL_EXPORTER_OTLP_HEADERS: a has a value that an HTTP header cannot carry$/,
    );
    const own = compile({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_EXPORTER_OTLP_HEADERS: 'content-type=x' });
    expect(() => own?.headers()).toThrow('is a header that the host sets itself');
  });

  it('refuses unknown keys of the table and plain headers, and keeps their variables from records [telemetry.settings]', async () => {
    const load = (table: string) =>
      loadHostConfig({ file: 'c.toml', env: { KEY: 'k' }, readFile: () => `[telemetry]\n${table}\n` });
    await expect(load('endpiont = "http://x"')).rejects.toThrow('did you mean "endpoint"');
    await expect(load('headers = { a = "plain" }')).rejects.toThrow('must be a reference');
    const { keyVariables } = await load('endpoint = "http://x"\nheaders = { a = "env:KEY" }');
    expect(keyVariables).toEqual(expect.arrayContaining(['KEY', 'OTEL_EXPORTER_OTLP_HEADERS']));
  });
});
