import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { collector as collectorEngine } from '../../../scripts/engines/collector.ts';
import { loadRegistryConfig } from '../../../src/config/registry/registry-config.ts';
import { McpRegistryService } from '../../../src/generated/proto/sms/mcp_registry_pb.ts';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { needsEngine, skipIfMissing } from '../../support/needs.ts';
import { NodeLives, writeNodeFolder } from '../../torture/node/node-life.ts';
import { type CollectedSpan, type RunningCollector, startCollector } from './running-collector.ts';

let collector: RunningCollector;

const missing = needsEngine(collectorEngine);
skipIfMissing(missing);

beforeAll(async () => {
  if (missing === undefined) collector = await startCollector();
});

afterAll(() => (missing === undefined ? collector.stop() : undefined));

const parsed = (text: string) => JSON.parse(text) as RunRecord;
const trace = (digit: string) => ({ traceId: digit.repeat(32), spanId: digit.repeat(16) });
const header = ({ traceId, spanId }: { traceId: string; spanId: string }) => `00-${traceId}-${spanId}-01`;
const only = (spans: readonly CollectedSpan[], name: string) => {
  const found = spans.filter((span) => span.name === name);
  expect(found, name).toHaveLength(1);
  return found[0] as CollectedSpan;
};

describe('a node that is traced', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spear-traced-node-'));
  const node = new NodeLives(folder);
  const agent = '/v1/namespaces/default/tasks/agent/runs';
  const runs = '/v1/namespaces/default/runs';

  beforeAll(async () => {
    writeNodeFolder(folder, { node: 'drain_ms = 200', turnMs: 150 });
    appendFileSync(
      join(folder, 'config.toml'),
      `\n[telemetry]\nendpoint = "${collector.url}"\nservice_name = "our-node"\nspan_delay_ms = 10\nmetric_interval_ms = 1000\n`,
    );
    await node.start();
  }, 60_000);

  afterAll(async () => {
    await node.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  it('continues the trace of a submission: request, queue, attempt, turns and calls [telemetry.node] [telemetry.metrics]', async () => {
    const above = trace('a');
    const answer = await node.ask('POST', agent, {
      body: 'x',
      headers: { traceparent: header(above), prefer: 'wait=60' },
    });
    expect(answer.status).toBe(200);
    const id = answer.headers.get('spear-run') ?? '';
    const run = parsed((await node.ask('GET', `${runs}/${id}`)).text);
    expect(run.traceparent).toMatch(new RegExp(`^00-${above.traceId}-`));
    const isOfRun = (span: CollectedSpan) => span.traceId === above.traceId && span.service === 'our-node';
    const spans = await collector.until(isOfRun, 10);
    const request = only(spans, 'POST /v1/namespaces/{namespace}/tasks/{task}/runs');
    expect(request).toMatchObject({ kind: 'server', parentSpanId: above.spanId, isError: false });
    const whole = only(spans, 'invoke_agent default/agent');
    expect(whole).toMatchObject({
      parentSpanId: request.spanId,
      attributes: { 'spear.run.id': id, 'spear.run.status': 'succeeded' },
    });
    expect(only(spans, 'wait in queue').parentSpanId).toBe(whole.spanId);
    const attempt = only(spans, 'attempt 1');
    expect(attempt.parentSpanId).toBe(whole.spanId);
    const inside = spans.filter(({ parentSpanId }) => parentSpanId === attempt.spanId).map(({ name }) => name);
    expect(inside.filter((name) => name.startsWith('chat'))).toHaveLength(3);
    expect(inside.filter((name) => name === 'execute_tool work')).toHaveLength(3);
    await expect.poll(() => [...collector.metrics()]).toContain('spearlet_queue_depth');
  });

  it('has every attempt in the same trace, even after a kill [telemetry.node]', async () => {
    const { id } = parsed((await node.ask('POST', agent, { body: 'y' })).text);
    await collector.until(({ name, attributes }) => name === 'wait in queue' && attributes['spear.run.id'] === id);
    await node.kill();
    await node.start();
    const ended = ({ name, attributes }: CollectedSpan) =>
      name === 'invoke_agent default/agent' && attributes['spear.run.id'] === id;
    const [whole] = (await collector.until(ended)) as [CollectedSpan];
    expect(whole.parentSpanId).toBe('');
    const spans = collector.spans().filter(({ traceId }) => traceId === whole.traceId);
    expect(only(spans, 'attempt 2').parentSpanId).toBe(whole.spanId);
    expect(only(spans, 'wait in queue').parentSpanId).toBe(whole.spanId);
  });
});

describe('a registry that is traced', () => {
  afterEach(stopAll);

  it('continues the trace of requests and calls, and pushes its metrics [telemetry.sms] [telemetry.metrics]', async () => {
    const { telemetry } = loadRegistryConfig({
      flags: { data: join(tmpdir(), 'nowhere.db') },
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SERVICE_NAME: 'our-sms' },
    });
    const test = await startTestSms({ telemetry });
    const [overHttp, overGrpc] = [trace('c'), trace('d')];
    const listed = await test.http('GET', '/admin/api/mcp/servers', { headers: { traceparent: header(overHttp) } });
    expect(listed.status).toBe(200);
    const transport = createGrpcTransport({ baseUrl: `http://${test.sms.grpc}` });
    const client = createClient(McpRegistryService, transport);
    const headers = { authorization: `Bearer ${test.nodeToken}`, traceparent: header(overGrpc) };
    await client.listMcpServers({}, { headers });
    await expect(client.deleteMcpServer({ serverId: 'x' }, { headers })).rejects.toThrow();
    await test.sms.close();
    const spans = await collector.until(({ service }) => service === 'our-sms', 3);
    expect(only(spans, 'GET /admin/api/mcp/servers')).toMatchObject({
      ...{ kind: 'server', traceId: overHttp.traceId, parentSpanId: overHttp.spanId },
      attributes: { 'http.response.status_code': 200 },
    });
    expect(only(spans, 'sms.McpRegistryService/ListMcpServers')).toMatchObject({
      ...{ kind: 'server', traceId: overGrpc.traceId, parentSpanId: overGrpc.spanId },
      attributes: { 'rpc.system.name': 'grpc', 'rpc.response.status_code': 'OK' },
    });
    expect(only(spans, 'sms.McpRegistryService/DeleteMcpServer')).toMatchObject({
      isError: false,
      attributes: { 'rpc.response.status_code': 'PERMISSION_DENIED' },
    });
    expect([...collector.metrics()]).toEqual(
      expect.arrayContaining(['spear_sms_revision', 'spear_sms_requests_total']),
    );
  });
});
