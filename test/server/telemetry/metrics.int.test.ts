import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { afterEach, describe, expect, it } from 'vitest';
import { BackendError, type ChatBackend } from '../../../src/agent/chat/backend.ts';
import { meteredBackend } from '../../../src/agent/chat/observed-backend.ts';
import { createMetrics, McpToolbox } from '../../../src/index.ts';
import { calls } from '../../../src/runtime/abi/calls.ts';
import { type AuditEvent, noAudit } from '../../../src/server/audit/event.ts';
import { BoundedLabel, MAX_LABELLED_SERVERS, MAX_LABELLED_TOOLS, OTHER } from '../../../src/server/telemetry/labels.ts';
import { openPrometheusMeters, type PrometheusMeters } from '../../../src/server/telemetry/prometheus.ts';
import { fixture } from '../../agent/mcp/client/pool-records.ts';
import { scripted } from '../../support/chat-host.ts';
import { runFixture } from '../../support/run-fixture.ts';
import { parseExposition, sampleValue } from './exposition.ts';

const open: PrometheusMeters[] = [];

afterEach(async () => {
  for (const meters of open.splice(0)) await meters.close();
});

function setUp() {
  const meters = openPrometheusMeters(1_000);
  open.push(meters);
  const metrics = createMetrics(meters.provider);
  return { metrics, scrape: async () => parseExposition(await meters.text()), text: meters.text };
}

const call = (server: string | null, tool: string, outcome = 'ok') => ({
  server,
  tool,
  outcome,
  durationMs: 3,
  bytes: 100,
});

const listed = (serverId: string, tools: readonly string[]) => ({
  event: 'tools_listed',
  serverId,
  durationMs: 12,
  tools,
});

describe('labels', () => {
  it('give the first values their own series and combine the rest [metrics.labels-bounded]', () => {
    const label = new BoundedLabel(2);
    expect(['a', 'b', 'c', 'a', 'd', 'b'].map((value) => label.value(value))).toEqual([
      'a',
      'b',
      OTHER,
      'a',
      OTHER,
      'b',
    ]);
  });

  it('stay bounded over many servers and tools, and no call is lost [metrics.labels-bounded]', async () => {
    const { metrics, scrape } = setUp();
    const tools = Array.from({ length: 30 }, (_, index) => `tool-${index}`);
    for (let server = 0; server < MAX_LABELLED_SERVERS + 20; server++) {
      metrics.mcp.poolEvent(listed(`server-${server}`, tools));
      for (const tool of tools) metrics.mcp.toolCalled(call(`server-${server}`, tool));
    }
    const families = await scrape();
    const samples = families.get('mcp_tool_call_total')?.samples ?? [];
    expect(samples.length).toBeLessThanOrEqual(MAX_LABELLED_TOOLS + MAX_LABELLED_SERVERS + 1);
    expect(new Set(samples.map(({ labels }) => labels.server_id)).size).toBe(MAX_LABELLED_SERVERS + 1);
    expect(samples.reduce((sum, { value }) => sum + value, 0)).toBe((MAX_LABELLED_SERVERS + 20) * tools.length);
    expect(samples.some(({ labels }) => Object.hasOwn(labels, 'otel_metric_overflow'))).toBe(false);
  });

  it('never contain a name that only a guest or a model used [metrics.labels-known]', async () => {
    const { metrics, text, scrape } = setUp();
    metrics.mcp.labels.knowServer('fs');
    metrics.mcp.poolEvent(listed('fs', ['read']));
    for (const free of ['canary one', 'canary"\n{x="1"} 2']) {
      metrics.mcp.toolCalled(call('fs', free, 'mcp_policy_denied'));
      metrics.mcp.toolCalled(call(free, 'read', 'mcp_policy_denied'));
      metrics.mcp.toolCalled(call(null, free, 'mcp_policy_denied'));
    }
    metrics.mcp.toolCalled(call('fs', 'read'));
    metrics.guests.guestStarted(() => ({ 'canary three': 5, cchat_send: 2 })).ended('exit');
    expect(await text()).not.toContain('canary');
    const families = await scrape();
    expect(sampleValue(families, 'mcp_tool_call_total', { server_id: 'fs', tool: 'read' })).toBe(1);
    expect(sampleValue(families, 'mcp_tool_call_total', { server_id: 'fs', tool: OTHER })).toBe(2);
    expect(sampleValue(families, 'mcp_tool_call_total', { server_id: OTHER, tool: OTHER })).toBe(4);
    expect(families.get('spear_hostcalls_total')?.samples).toEqual([
      { name: 'spear_hostcalls_total', labels: { call: 'cchat_send' }, value: 2 },
    ]);
  });

  it('are escaped for an unusual server name', async () => {
    const { metrics, scrape } = setUp();
    const odd = 'a"b\\c{d}=,é';
    metrics.mcp.poolEvent(listed('fs', [odd]));
    metrics.mcp.toolCalled(call('fs', odd));
    expect(sampleValue(await scrape(), 'mcp_tool_call_total', { tool: odd })).toBe(1);
  });
});

describe('counting', () => {
  it('counts calls, errors by code, latency and size of MCP tools', async () => {
    const { metrics, scrape } = setUp();
    metrics.mcp.poolEvent(listed('fs', ['read']));
    metrics.mcp.toolCalled({ ...call('fs', 'read'), durationMs: 4, bytes: 300 });
    metrics.mcp.toolCalled({ ...call('fs', 'read', 'mcp_timeout'), durationMs: 8_000 });
    const families = await scrape();
    const about = { server_id: 'fs', tool: 'read' };
    expect(sampleValue(families, 'mcp_tool_call_total', about)).toBe(2);
    expect(sampleValue(families, 'mcp_tool_call_error_total', { ...about, code: 'mcp_timeout' })).toBe(1);
    expect(sampleValue(families, 'mcp_tool_call_latency_seconds_count', about)).toBe(2);
    expect(sampleValue(families, 'mcp_tool_call_latency_seconds_sum', about)).toBeCloseTo(8.004);
    expect(sampleValue(families, 'mcp_tool_call_latency_seconds_bucket', { ...about, le: '0.005' })).toBe(1);
    expect(sampleValue(families, 'mcp_tool_call_output_bytes_sum', about)).toBe(400);
    expect(sampleValue(families, 'mcp_list_tools_latency_seconds_sum', { server_id: 'fs' })).toBe(0.012);
  });

  it('distinguishes a call of half an hour from one of an hour', async () => {
    const { metrics, scrape } = setUp();
    metrics.mcp.poolEvent(listed('fs', ['read']));
    metrics.mcp.toolCalled({ ...call('fs', 'read'), durationMs: 1_700_000 });
    metrics.mcp.toolCalled({ ...call('fs', 'read'), durationMs: 3_500_000 });
    const buckets = await scrape();
    const under = (le: string) => sampleValue(buckets, 'mcp_tool_call_latency_seconds_bucket', { le });
    expect(['600', '1800', '3600'].map(under)).toEqual([0, 1, 2]);
  });

  it('counts the connection events of the pool', async () => {
    const { metrics, scrape } = setUp();
    for (const event of ['connected', 'connection_lost', 'connect_failed', 'list_failed', 'stderr']) {
      metrics.mcp.poolEvent({ event, serverId: 'fs' });
    }
    metrics.mcp.poolEvent({ event: 'watchdog_lost', serverId: null });
    const families = await scrape();
    const about = { server_id: 'fs' };
    expect(sampleValue(families, 'mcp_server_connect_total', about)).toBe(2);
    expect(sampleValue(families, 'mcp_server_connect_error_total', about)).toBe(1);
    expect(sampleValue(families, 'mcp_server_connection_lost_total', about)).toBe(1);
    expect(sampleValue(families, 'mcp_list_tools_error_total', about)).toBe(1);
  });

  it('counts the injections, denials, approvals and limits of the audit log', async () => {
    const { metrics, scrape } = setUp();
    for (const id of ['fs', 'git', 'gone']) metrics.mcp.labels.knowServer(id);
    const written: AuditEvent[] = [];
    const sink = metrics.mcp.countedSink({ write: (_, event) => written.push(event) }, 'nightly');
    const left = {
      server_id: 'gone',
      tool_name: null,
      reason: 'unknown_server',
      layer: 'registry' as const,
      detail: '',
    };
    const about = { session_id: 'chat-1', request_id: 'a', server_id: 'fs', tool_name: 'write' };
    const injected = { event: 'mcp.injected', session_id: 'chat-1', exclusions: [], duration_ms: 1 } as const;
    const events: AuditEvent[] = [
      { event: 'session.created', session_id: 'chat-1', revision: 7, servers: ['fs', 'git'], exclusions: [left] },
      { ...injected, server_id: 'fs', status: 'ok', reason: null, tools: 3 },
      { ...injected, server_id: 'git', status: 'failed', reason: 'env_missing', tools: 0 },
      {
        event: 'tool_call.finished',
        source: 'mcp',
        status: 'denied',
        reason: 'denied_by_task',
        duration_ms: 0,
        output_bytes: 1,
        revision: 7,
        ...about,
      },
      { event: 'budget.hit', session_id: null, server_id: null, tool_name: null, budget: 'max_iterations' },
    ];
    for (const event of events) sink.write('run', event);
    expect(written).toEqual(events);
    const families = await scrape();
    expect(sampleValue(families, 'mcp_effective_servers', { task_id: 'nightly' })).toBe(2);
    expect(sampleValue(families, 'mcp_injection_total', { server_id: 'fs', status: 'success' })).toBe(1);
    expect(sampleValue(families, 'mcp_injection_total', { server_id: 'git', status: 'failed' })).toBe(1);
    expect(sampleValue(families, 'mcp_injection_total', { server_id: 'gone', status: 'denied' })).toBe(1);
    expect(sampleValue(families, 'mcp_denied_total', { server_id: 'gone', reason: 'unknown_server' })).toBe(1);
    expect(sampleValue(families, 'mcp_denied_total', { server_id: 'git', reason: 'env_missing' })).toBe(1);
    expect(sampleValue(families, 'mcp_denied_total', { server_id: 'fs', reason: 'denied_by_task' })).toBe(1);
    expect(sampleValue(families, 'spear_budget_hit_total', { budget: 'max_iterations' })).toBe(1);
  });

  it('keeps how the audit sink shows arguments', () => {
    const { metrics } = setUp();
    expect(metrics.mcp.countedSink(noAudit, null).showArguments).toBe(noAudit.showArguments);
    expect(metrics.mcp.countedSink({ write: () => {} }, null)).not.toHaveProperty('showArguments');
  });

  it('counts the tokens and the outcome of every model response', async () => {
    const { metrics, scrape } = setUp();
    const answers = [{ usage: { prompt_tokens: 30, completion_tokens: 5, total_tokens: 35 } }, { usage: 'odd' }];
    const fake: ChatBackend = {
      name: 'main',
      model: 'm',
      complete: async () => {
        const answer = answers.shift();
        if (answer) return answer;
        throw new BackendError('rate_limited', 'slow down', { retryable: true });
      },
      close: async () => {},
    };
    const backend = meteredBackend(fake, metrics.guests);
    const { signal } = new AbortController();
    await backend.complete({ messages: [] }, signal);
    await backend.complete({ messages: [] }, signal);
    await expect(backend.complete({ messages: [] }, signal)).rejects.toThrow('slow down');
    await expect(backend.complete({ messages: [] }, AbortSignal.abort())).rejects.toThrow();
    const families = await scrape();
    expect(sampleValue(families, 'spear_tokens_total', { backend: 'main', kind: 'prompt' })).toBe(30);
    expect(sampleValue(families, 'spear_tokens_total', { backend: 'main', kind: 'completion' })).toBe(5);
    for (const [outcome, count] of [
      ['ok', 2],
      ['rate_limited', 1],
      ['cancelled', 1],
    ] as const) {
      expect(sampleValue(families, 'spear_model_call_total', { backend: 'main', outcome })).toBe(count);
    }
    expect(sampleValue(families, 'spear_model_call_latency_seconds_count', { backend: 'main' })).toBe(4);
  });

  it('counts guests, and hostcalls of running and ended guests', async () => {
    const { metrics, scrape } = setUp();
    const name = calls[0].name;
    const counts = { [name]: 3 };
    const first = metrics.guests.guestStarted(() => counts);
    const other = { [name]: 0 };
    const second = metrics.guests.guestStarted(() => other);
    expect(sampleValue(await scrape(), 'spear_hostcalls_total', { call: name })).toBe(3);
    counts[name] = 4;
    expect(sampleValue(await scrape(), 'spear_hostcalls_total', { call: name })).toBe(4);
    expect(sampleValue(await scrape(), 'spear_guests_running')).toBe(2);
    first.ended('deadline');
    first.ended('deadline');
    other[name] = 10;
    second.ended('exit');
    const families = await scrape();
    expect(sampleValue(families, 'spear_hostcalls_total', { call: name })).toBe(14);
    expect(sampleValue(families, 'spear_guests_running')).toBe(0);
    expect(sampleValue(families, 'spear_guests_started_total')).toBe(2);
    expect(sampleValue(families, 'spear_guests_ended_total', { reason: 'deadline' })).toBe(1);
  });

  it('reads the pool and the registry at the scrape, until they are removed', async () => {
    const { metrics, scrape } = setUp();
    metrics.mcp.labels.knowServer('fs');
    let connected = 1;
    const reads = { pool: 0, registry: 0 };
    const forget = metrics.mcp.watchPool(() => {
      reads.pool++;
      const servers = [
        { serverId: 'fs', connected: connected > 0, reconnects: 2 },
        { serverId: 'stranger', connected: true, reconnects: 0 },
      ];
      return { connected, subprocesses: 1, queued: 5, running: 8, servers };
    });
    const forgetRegistry = metrics.mcp.watchRegistry(() => {
      reads.registry++;
      return { revision: 9, ageMs: 1_500, servers: 3, degraded: true };
    });
    const families = await scrape();
    expect(sampleValue(families, 'mcp_pool_connected')).toBe(1);
    expect(sampleValue(families, 'mcp_pool_queued')).toBe(5);
    expect(sampleValue(families, 'mcp_pool_running')).toBe(8);
    expect(sampleValue(families, 'mcp_pool_subprocesses')).toBe(1);
    expect(sampleValue(families, 'mcp_server_connected', { server_id: 'fs' })).toBe(1);
    expect(families.get('mcp_server_connected')?.samples).toHaveLength(1);
    expect(sampleValue(families, 'mcp_server_reconnect_total', { server_id: 'fs' })).toBe(2);
    expect(sampleValue(families, 'mcp_registry_revision')).toBe(9);
    expect(sampleValue(families, 'mcp_registry_age_seconds')).toBe(1.5);
    expect(sampleValue(families, 'mcp_registry_servers')).toBe(3);
    expect(sampleValue(families, 'mcp_registry_degraded')).toBe(1);
    connected = 0;
    expect(sampleValue(await scrape(), 'mcp_server_connected', { server_id: 'fs' })).toBe(0);
    forget();
    forgetRegistry();
    const later = await scrape();
    expect(sampleValue(later, 'mcp_pool_running')).toBe(0);
    expect(reads).toEqual({ pool: 2, registry: 2 });
  });
});

it('count the limit that a send of a guest without MCP hit, once', async () => {
  const { metrics, scrape } = setUp();
  const reply = { tool_calls: [{ id: 'a', name: 'sum', arguments: { a: 1, b: 2 } }] };
  const backend = await scripted([{ reply, repeat: true }]);
  await runFixture('c/sum.wasm', { backend, metrics });
  const families = await scrape();
  expect(sampleValue(families, 'spear_budget_hit_total', { budget: 'max_iterations' })).toBe(1);
});

it('go to the meter provider of the embedding program [metrics.embedding]', async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 60_000 });
  const provider = new MeterProvider({ readers: [reader] });
  const toolbox = new McpToolbox({
    servers: [
      {
        name: 'tiny',
        transport: { kind: 'stdio', command: process.execPath, args: [fixture('tiny.mjs')] },
        approval: { perTool: { pid: 'always' } },
      },
    ],
    metrics: createMetrics(provider),
  });
  await toolbox.connect();
  await toolbox.tool('tiny_echo').call({ message: 'hi' });
  await toolbox.tool('tiny_pid').call({});
  await provider.forceFlush();
  await toolbox.disconnect();
  const found = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
  const named = (name: string) => found.find(({ descriptor }) => descriptor.name === name)?.dataPoints;
  expect(named('mcp_tool_call_total')).toMatchObject([
    { value: 1, attributes: { server_id: 'tiny', tool: 'echo' } },
    { value: 1, attributes: { server_id: 'tiny', tool: 'pid' } },
  ]);
  expect(named('mcp_denied_total')).toMatchObject([
    { value: 1, attributes: { server_id: 'tiny', reason: 'approval_required' } },
  ]);
  expect(named('mcp_server_connect_total')).toMatchObject([{ value: 1, attributes: { server_id: 'tiny' } }]);
  expect(named('mcp_pool_connected')).toMatchObject([{ value: 1 }]);
  await provider.shutdown();
});
