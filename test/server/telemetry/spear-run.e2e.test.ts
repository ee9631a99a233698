import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { collector as collectorEngine } from '../../../scripts/engines/collector.ts';
import { fileWith, recordDir, recordOf, script, taskWithMcp } from '../../agent/mcp/mcp-run.ts';
import { Cli, fixture, scratch, spearRun } from '../../e2e/spear-run.ts';
import { needsEngine, skipIfMissing } from '../../support/needs.ts';
import { type CollectedSpan, freePort, type RunningCollector, startCollector } from './running-collector.ts';

let collector: RunningCollector;

const missing = needsEngine(collectorEngine);
skipIfMissing(missing);

beforeAll(async () => {
  if (missing === undefined) collector = await startCollector();
});

afterAll(() => (missing === undefined ? collector.stop() : undefined));

const KEY = 'model-key-0123456789';
const PROMPT_WORDS = 'Which of the files';
const ANSWER = 'the answer that is private';
const ARGUMENT = 'an argument that is private';

/** A guest that computes until it is ended. */
const SPIN = Uint8Array.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1],
  ...[7, 19, 2, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2, 0, 6, 0x5f, 0x73, 0x74, 0x61, 0x72, 0x74, 0, 0],
  ...[10, 9, 1, 7, 0, 3, 0x40, 0x0c, 0, 0x0b, 0x0b],
]);

function fileOf(bytes: Uint8Array): string {
  const path = join(scratch, 'spin.wasm');
  writeFileSync(path, bytes);
  return path;
}

interface Asked {
  readonly headers: IncomingHttpHeaders;
}

/** A fake model over real HTTP: it calls a tool that works and one that fails, and then answers. */
async function startModel(tools: readonly string[]): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer(async (req, res) => {
    await req.toArray();
    asked.push({ headers: req.headers });
    const name = tools[asked.length - 1];
    const args = JSON.stringify({ label: ARGUMENT });
    const call = { id: `call_${asked.length}`, type: 'function', function: { name, arguments: args } };
    const message = name === undefined ? { content: ANSWER } : { content: null, tool_calls: [call] };
    const finish_reason = name === undefined ? 'stop' : 'tool_calls';
    res.setHeader('content-type', 'application/json');
    const choices = [{ index: 0, finish_reason, message: { role: 'assistant', ...message } }];
    const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
    res.end(JSON.stringify({ id: `answer-${asked.length}`, model: 'model-2026', choices, usage }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked };
}

const traceparent = (span: CollectedSpan) => `00-${span.traceId}-${span.spanId}-01`;
const named = (name: string) => (span: CollectedSpan) => span.name === name;

describe('a run that is traced', () => {
  it('is a trace: turns and tool calls are spans by the conventions, propagated to models and servers [telemetry.run] [telemetry.propagation] [telemetry.no-content]', async () => {
    const model = await startModel(['traced_work', 'traced_fail', 'nowhere_to_be_found']);
    const callLog = join(scratch, 'traced-calls');
    const records = recordDir({ 'traced.json': recordOf('traced', 'traced.mjs', { env: { CALL_LOG: callLog } }) });
    const audit = join(scratch, 'traced-audit.jsonl');
    const { code, stdout, stderr } = await spearRun(
      [fixture('c/files.wasm'), ...taskWithMcp(['traced']), ...['--mcp-dir', records, '--audit', audit, '--json']],
      {
        env: {
          ...{ OPENAI_BASE_URL: model.url, OPENAI_API_KEY: KEY, OPENAI_MODEL: 'model-1' },
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
          OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=tests',
        },
      },
    );
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const { trace_id: traceId } = JSON.parse(stdout) as { trace_id: string };
    const spans = await collector.until((span) => span.traceId === traceId, 8);
    const [run] = spans.filter(named('invoke_agent test')) as [CollectedSpan];
    expect(run).toMatchObject({
      ...{ kind: 'internal', parentSpanId: '', isError: false, service: 'spear-run' },
      attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'test', 'spear.run.attempt': 1 },
    });
    const turns = spans.filter(named('chat model-1'));
    expect(turns).toHaveLength(4);
    for (const turn of turns) {
      expect(turn).toMatchObject({ kind: 'client', parentSpanId: run.spanId, isError: false });
      expect(turn.attributes).toMatchObject({
        'gen_ai.operation.name': 'chat',
        'gen_ai.request.model': 'model-1',
        'gen_ai.response.model': 'model-2026',
        'gen_ai.usage.input_tokens': 11,
        'gen_ai.usage.output_tokens': 7,
      });
    }
    expect(model.asked.map(({ headers }) => headers.traceparent).sort()).toEqual(turns.map(traceparent).sort());
    const [worked] = spans.filter(named('execute_tool work')) as [CollectedSpan];
    const [failed] = spans.filter(named('execute_tool fail')) as [CollectedSpan];
    expect(worked).toMatchObject({ kind: 'client', parentSpanId: run.spanId, isError: false });
    expect(worked.attributes).toMatchObject({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'work',
      'gen_ai.tool.call.id': 'call_1',
      'mcp.method.name': 'tools/call',
      'spear.mcp.server': 'traced',
    });
    expect(failed).toMatchObject({ isError: true, attributes: { 'error.type': 'mcp_tool_error' } });
    expect(readFileSync(callLog, 'utf8')).toBe(`${traceparent(worked)}\n${traceparent(failed)}\n`);
    const lines = readFileSync(audit, 'utf8').trim().split('\n');
    const traced = lines.map((line) => JSON.parse(line) as { event: string; trace_id?: string });
    const ofRun = traced.filter(({ event }) => !event.startsWith('chain.'));
    expect(new Set(ofRun.map(({ trace_id }) => trace_id))).toEqual(new Set([traceId]));
    for (const said of [KEY, PROMPT_WORDS, ANSWER, ARGUMENT, 'result of', 'nowhere_to_be_found']) {
      expect(collector.text()).not.toContain(said);
    }
  });

  it('continues the trace of its caller, and is not exported if that trace is not [telemetry.propagation] [telemetry.sampling]', async () => {
    const parent = '4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7';
    const run = (flags: string, model: { url: string }) =>
      spearRun([fixture('c/files.wasm')], {
        env: {
          ...{ OPENAI_BASE_URL: model.url, OPENAI_API_KEY: KEY, OPENAI_MODEL: 'model-1' },
          OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
          OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
          OTEL_SERVICE_NAME: 'told-by-a-variable',
          TRACEPARENT: `00-${parent}-${flags}`,
        },
      });
    const unsampled = await startModel([]);
    expect((await run('00', unsampled)).code).toBe(0);
    expect(unsampled.asked[0]?.headers.traceparent).toMatch(/^00-4bf92f3577b34da6a3ce929d0e0e4736-[\da-f]{16}-00$/);
    const sampled = await startModel([]);
    expect((await run('01', sampled)).code).toBe(0);
    const spans = await collector.until(({ service }) => service === 'told-by-a-variable', 2);
    expect(spans).toHaveLength(2);
    const [whole] = spans.filter(({ name }) => name.startsWith('invoke_agent'));
    expect(whole).toMatchObject({ traceId: parent.slice(0, 32), parentSpanId: parent.slice(33) });
  });

  it('shows a denied call and a failed guest [telemetry.errors]', async () => {
    const records = recordDir({
      'traced.json': recordOf('traced', 'traced.mjs', {
        env: { CALL_LOG: join(scratch, 'approved-calls') },
        approval_policy: { default: 'always' },
      }),
    });
    const call = { id: 'call_1', name: 'traced_work', arguments: { label: 'x' } };
    const turns = script(
      { when: { role: 'user' }, reply: { tool_calls: [call] } },
      { when: { role: 'tool' }, reply: { content: 'done' } },
    );
    const { stdout } = await spearRun(
      [
        fixture('c/files.wasm'),
        ...taskWithMcp(['traced']),
        ...turns,
        '--mcp-dir',
        records,
        '--approve',
        'deny',
        '--json',
      ],
      { env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } },
    );
    const { trace_id: traceId } = JSON.parse(stdout) as { trace_id: string };
    const spans = await collector.until((span) => span.traceId === traceId, 4);
    const [tool] = spans.filter(named('execute_tool work'));
    expect(tool).toMatchObject({ isError: true, attributes: { 'error.type': 'approval_required' } });
    const late = await spearRun([fileOf(SPIN), '--limit', 'timeout_ms=200', '--json'], {
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    });
    const { trace_id: ended } = JSON.parse(late.stdout) as { trace_id: string };
    const [whole] = await collector.until((span) => span.traceId === ended);
    expect(whole).toMatchObject({ isError: true, attributes: { 'error.type': 'deadline' } });
  });

  it('sends the metrics of the run when it ends [telemetry.metrics]', async () => {
    const { code } = await spearRun([fixture('c/hello.wasm')], {
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_TRACES_EXPORTER: 'none' },
    });
    expect(code).toBe(0);
    expect([...collector.metrics()]).toEqual(
      expect.arrayContaining(['spear_guests_ended_total', 'spear_hostcalls_total']),
    );
  });
});

describe('an unavailable collector', () => {
  it('neither fails nor delays a run, and is reported once [telemetry.unreachable]', async () => {
    const { code, stdout, stderr } = await spearRun([fixture('c/hello.wasm')], {
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`, OTEL_METRICS_EXPORTER: 'none' },
    });
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'hello from C\n' });
    expect(stderr.match(/failed: ECONNREFUSED/g)).toHaveLength(1);
    expect(stderr).toContain('telemetry: 1 spans dropped');
  });

  it('that accepts connections and never responds delays the exit by the configured time, and Ctrl-C ends that too [telemetry.unreachable]', async () => {
    const silent = createTcpServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    onTestFinished(() => void silent.close());
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const connected = once(silent, 'connection');
    const cli = new Cli([fixture('c/hello.wasm')], { env: { OTEL_EXPORTER_OTLP_ENDPOINT: url } }).listen();
    await connected;
    cli.child.kill('SIGINT');
    expect(await cli.finished()).toMatchObject({ signal: 'SIGINT', stdout: 'hello from C\n' });
    const patient = await spearRun([fixture('c/hello.wasm')], { env: { OTEL_EXPORTER_OTLP_ENDPOINT: url } });
    expect(patient).toMatchObject({ code: 0, stdout: 'hello from C\n' });
    expect(patient.stderr).toContain('telemetry: 1 spans dropped');
  });
});

describe('a run that is not traced', () => {
  it('loads no telemetry code, and prints and sends nothing more [telemetry.off]', async () => {
    const hook = fileWith(
      'loaded.cjs',
      "process.on('exit', () => process.stderr.write(Object.keys(require.cache).join('\\n')));",
    );
    const run = (env: Record<string, string>) =>
      spearRun([fixture('c/hello.wasm'), '--json'], { env, nodeArgs: ['--require', hook] });
    const off = await run({ OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    expect(off.stdout).not.toContain('trace_id');
    expect(off.stderr).toContain('spear-run.cjs');
    expect(off.stderr).not.toMatch(/telemetry|run-trace|span|undici/);
    const on = await run({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    expect(on.stderr).toMatch(/telemetry/);
    expect(on.stdout).toContain('trace_id');
    const model = await startModel([]);
    const env = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: KEY, OPENAI_MODEL: 'model-1' };
    expect((await spearRun([fixture('c/files.wasm')], { env })).code).toBe(0);
    expect(model.asked[0]?.headers).not.toHaveProperty('traceparent');
  });
});
