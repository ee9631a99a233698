import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { npmServer } from '../agent/mcp/client/pool-records.ts';
import { fileWith, recordDir, taskWithMcp } from '../agent/mcp/mcp-run.ts';
import { type Family, parseExposition, sampleValue } from '../server/telemetry/exposition.ts';
import { Cli, fixture, spearRun } from './spear-run.ts';
import { SteeredModel } from './steered-model.ts';

const notes = {
  server_id: 'notes',
  transport: 'stdio',
  stdio: {
    command: process.execPath,
    args: [npmServer('filesystem'), fixture('demo/notes')],
    cwd: fixture('demo/notes'),
  },
  allowed_tools: ['read_*', 'list_*'],
};

const model = { current: new SteeredModel() };

afterEach(async () => {
  await model.current.stop();
  model.current = new SteeredModel();
});

/** Resolves with where a run says that its metrics are. */
async function metricsUrl(cli: Cli): Promise<string> {
  let said = '';
  cli.child.stderr.on('data', (text: string) => {
    said += text;
  });
  cli.listen();
  await cli.says('stderr', '/metrics\n');
  return /metrics at (http:\/\/127\.0\.0\.1:\d+)\/metrics\n/.exec(said)?.[1] ?? said;
}

/** The files guest with its model in the test's hands. */
async function runFiles(): Promise<{ cli: Cli; url: string }> {
  const env = { OPENAI_BASE_URL: await model.current.start(), OPENAI_API_KEY: 'test-key', OPENAI_MODEL: 'steered' };
  const flags = [...taskWithMcp(['notes', 'absent']), '--mcp-dir', recordDir({ 'notes.json': notes })];
  const cli = new Cli([fixture('c/files.wasm'), ...flags, '--metrics', ':0'], { env });
  return { cli, url: await metricsUrl(cli) };
}

async function scrape(url: string): Promise<Map<string, Family>> {
  const response = await fetch(`${url}/metrics`);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  return parseExposition(await response.text());
}

describe('spear-run --metrics', () => {
  it('shows what a running guest does with a real server and its model [metrics.endpoint] [metrics.names]', async () => {
    const { cli, url } = await runFiles();
    const first = await model.current.next();
    const before = await scrape(url);
    expect(sampleValue(before, 'spear_guests_running')).toBe(1);
    expect(sampleValue(before, 'mcp_injection_total', { server_id: 'notes', status: 'success' })).toBe(1);
    expect(sampleValue(before, 'mcp_injection_total', { server_id: 'absent', status: 'denied' })).toBe(1);
    expect(sampleValue(before, 'mcp_denied_total', { server_id: 'absent', reason: 'unknown_server' })).toBe(1);
    expect(sampleValue(before, 'mcp_server_connect_total', { server_id: 'notes' })).toBe(1);
    expect(sampleValue(before, 'mcp_list_tools_latency_seconds_count', { server_id: 'notes' })).toBe(1);
    expect(sampleValue(before, 'mcp_pool_connected')).toBe(1);
    expect(sampleValue(before, 'mcp_registry_revision')).toBe(1);
    expect(sampleValue(before, 'mcp_registry_age_seconds')).toBeGreaterThanOrEqual(0);
    expect(sampleValue(before, 'mcp_effective_servers', { task_id: 'test' })).toBe(1);
    expect(sampleValue(before, 'spear_hostcalls_total', { call: 'cchat_send' })).toBe(1);
    expect(sampleValue(before, 'mcp_tool_call_total')).toBeUndefined();

    first.call('notes_read_text_file', { path: 'risks.md' });
    const second = await model.current.next();
    second.call('notes_write_file', { path: 'canary', content: 'canary' });
    const third = await model.current.next();
    third.call('mcp__no__such', { canary: 'canary' });
    const last = await model.current.next();
    const response = await fetch(`${url}/metrics`);
    const text = await response.text();
    const after = parseExposition(text);
    const read = { server_id: 'notes', tool: 'read_text_file' };
    expect(sampleValue(after, 'mcp_tool_call_total', read)).toBe(1);
    expect(sampleValue(after, 'mcp_tool_call_error_total', read)).toBeUndefined();
    expect(sampleValue(after, 'mcp_tool_call_latency_seconds_count', read)).toBe(1);
    expect(sampleValue(after, 'mcp_tool_call_output_bytes_sum', read)).toBeGreaterThan(10);
    const refused = { server_id: 'notes', tool: 'write_file', code: 'mcp_policy_denied' };
    expect(sampleValue(after, 'mcp_tool_call_error_total', refused)).toBe(1);
    expect(sampleValue(after, 'mcp_tool_call_total', { server_id: 'other', tool: 'other' })).toBe(1);
    expect(sampleValue(after, 'mcp_denied_total', { server_id: 'notes', reason: 'denied_by_registry' })).toBe(1);
    expect(sampleValue(after, 'spear_model_call_total', { outcome: 'ok' })).toBe(3);
    expect(text).not.toContain('canary');
    expect(text).not.toContain('no__such');
    last.say('done');
    expect(await cli.finished()).toMatchObject({ code: 0, stdout: expect.stringContaining('done') });
    await expect(fetch(`${url}/metrics`)).rejects.toThrow();
  });

  it('answers while the guest computes, and ends with it [metrics.endpoint]', async () => {
    const cli = new Cli([fixture('c/test/spin.wasm'), '--metrics', '127.0.0.1:0', '--limit', 'timeout_ms=60000']);
    const url = await metricsUrl(cli);
    await untilRunning(url);
    const families = await scrape(url);
    expect(sampleValue(families, 'spear_guests_running')).toBe(1);
    expect(sampleValue(families, 'process_resident_memory_bytes')).toBeGreaterThan(1_000_000);
    cli.child.kill('SIGINT');
    expect((await cli.finished()).code).toBe(130);
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  });

  it('serves GET of /metrics and /healthz and nothing else [metrics.endpoint]', async () => {
    const cli = new Cli([fixture('c/test/spin.wasm'), '--metrics', ':0', '--limit', 'timeout_ms=60000']);
    const url = await metricsUrl(cli);
    const health = await fetch(`${url}/healthz`);
    expect([health.status, await health.text()]).toEqual([200, 'ok\n']);
    for (const path of ['/', '/metrics/', '/metrics2', '/healthz/x', '/..%2fmetrics']) {
      expect([path, (await fetch(`${url}${path}`)).status]).toEqual([path, 404]);
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const response = await fetch(`${url}/metrics`, { method, ...(method === 'POST' ? { body: 'x' } : {}) });
      expect([method, response.status, response.headers.get('allow')]).toEqual([method, 405, 'GET']);
    }
    expect(await raw(url, 'GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 421 /,
    );
    expect(await raw(url, 'GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 200 /,
    );
    cli.child.kill('SIGINT');
    await cli.finished();
  });

  it('does not run where the address is taken or is none, and says so', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as AddressInfo;
    const busy = await spearRun([fixture('c/hello.wasm'), '--metrics', `:${port}`]);
    taken.close();
    expect(busy).toMatchObject({ code: 125, stdout: '' });
    expect(busy.stderr).toBe(
      `spear-run: --metrics :${port}: cannot listen on 127.0.0.1:${port}: the address is in use; name another port, or :0 for any free one\n`,
    );
    for (const wrong of ['9464', 'localhost', ':99999', 'a b:1']) {
      const { code, stderr } = await spearRun([fixture('c/hello.wasm'), '--metrics', wrong]);
      expect({ code, stderr }).toEqual({
        code: 125,
        stderr: `spear-run: --metrics ${wrong}: expected HOST:PORT or :PORT, for example 127.0.0.1:9464\n`,
      });
    }
  });

  it('listens nowhere in a dry run', async () => {
    const { code, stderr } = await spearRun([fixture('c/hello.wasm'), '--metrics', ':0', '--dry-run']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it('keeps a client that never finishes its request from keeping the run [metrics.endpoint]', async () => {
    const cli = new Cli([fixture('c/test/spin.wasm'), '--metrics', ':0', '--limit', 'timeout_ms=60000']);
    const url = await metricsUrl(cli);
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => {});
    await new Promise((resolve) => socket.write('GET /metrics HTTP/1.1\r\nHost: local', resolve));
    await fetch(`${url}/healthz`);
    cli.child.kill('SIGINT');
    expect((await cli.finished()).code).toBe(130);
    await closed;
  });
});

it('without --metrics no OpenTelemetry package is loaded', async () => {
  const listing = "process.on('exit', () => process.stderr.write(Object.keys(require.cache).join('\\n')))";
  const preload = fileWith('loaded-files.cjs', listing);
  const loaded = async (args: readonly string[]) => {
    const { code, stderr } = await spearRun([fixture('c/hello.wasm'), ...args], { nodeArgs: ['--require', preload] });
    expect(code).toBe(0);
    return stderr;
  };
  expect(await loaded([])).not.toMatch(/run-metrics|opentelemetry/);
  expect(await loaded(['--metrics', ':0'])).toMatch(/run-metrics/);
});

async function untilRunning(url: string): Promise<void> {
  const end = performance.now() + 30_000;
  while (sampleValue(await scrape(url), 'spear_guests_running') !== 1) {
    if (performance.now() > end) throw new Error('the guest never ran');
  }
}

function raw(url: string, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(request));
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    socket.once('end', () => resolve(text)).once('error', reject);
  });
}
