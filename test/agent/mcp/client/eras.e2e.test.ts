import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import {
  call,
  eventually,
  fixture,
  httpRecord,
  openPool,
  startHttp,
  stdioRecord,
  tempDir,
  textOf,
} from './pool-samples.ts';

const patient = { budgets: { tool_timeout_ms: 60_000, connect_timeout_ms: 30_000 } };

interface Sample {
  readonly record: McpServerRecord;
  trail(): string[];
}

type Wire = 'stdio' | 'http';
type Protocol = McpServerRecord['protocol'];

async function bothEras(wire: Wire, protocol: Protocol, env: Record<string, string> = {}): Promise<Sample> {
  const file = join(tempDir(), 'trail');
  const trail = () => readFileSync(file, 'utf8').split('\n').filter(Boolean);
  const variables = { TRAIL: file, ...env };
  if (wire === 'stdio') {
    return { record: { ...stdioRecord('both', 'both-eras.mjs', { env: variables, ...patient }), protocol }, trail };
  }
  const { url } = await startHttp(fixture('both-eras.mjs'), ['http'], variables);
  return { record: { ...httpRecord('both', 'streamable_http', url('/mcp'), patient), protocol }, trail };
}

const rows = [
  ['stdio', 'auto', 'modern'],
  ['stdio', '2026-07-28', 'modern'],
  ['stdio', 'legacy', 'legacy'],
  ['http', 'auto', 'modern'],
  ['http', '2026-07-28', 'modern'],
  ['http', 'legacy', 'legacy'],
  ['http', '2031-01-01', 'legacy'],
] as const;

describe.each(rows)('over %s with protocol %s, which is the %s era, a server', (wire, protocol, era) => {
  it('is listed and called, and its errors are told [pool.eras]', async () => {
    const { record } = await bothEras(wire, protocol);
    const { pool } = openPool();
    const list = await pool.listTools(record);
    expect(list.tools.map(({ name }) => name)).toEqual([
      'echo',
      'era',
      'fail',
      'hold',
      'huge',
      'grow',
      'again',
      'ask',
      'work',
    ]);
    expect(list.instructions).toBe('Ask for the echo first.');
    expect(await textOf(call(pool, record, 'era'))).toBe(era);
    expect(await textOf(call(pool, record, 'echo', { message: ' ä\n' }))).toBe(' ä\n');
    expect((await call(pool, record, 'fail')).error).toMatchObject({
      code: 'mcp_tool_error',
      message: 'it did not work',
    });
    const many = Array.from({ length: 50 }, (_, n) => textOf(call(pool, record, 'echo', { message: `no ${n}` })));
    expect(await Promise.all(many)).toEqual(many.map((_, n) => `no ${n}`));
  });

  it('is told of a cancelled call, and goes on [pool.eras]', async () => {
    const { record, trail } = await bothEras(wire, protocol);
    const { pool } = openPool();
    const abort = new AbortController();
    const held = call(pool, record, 'hold', {}, { signal: abort.signal });
    await eventually(() => expect(trail()).toContain('held'));
    abort.abort();
    expect((await held).error).toMatchObject({ code: 'mcp_cancelled' });
    // Without a session the old era of this server cannot find the call that is meant.
    if (wire === 'stdio' || era === 'modern') await eventually(() => expect(trail()).toContain('cancelled'));
    expect(await textOf(call(pool, record, 'echo', { message: 'on' }))).toBe('on');
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 0 });
  });

  it('fails a call whose answer is too large, and goes on [pool.eras]', async () => {
    const { record } = await bothEras(wire, protocol);
    const { pool } = openPool({ limits: { maxMessageBytes: 100_000 } });
    const { error } = await call(pool, record, 'huge', { bytes: 300_000 });
    expect(error).toMatchObject({ code: 'mcp_output_too_large', retryable: false });
    expect(await textOf(call(pool, record, 'echo', { message: 'on' }))).toBe('on');
  });
});

// The old era over HTTP has no stream for changes at this server.
it.each(rows.filter(([wire, , era]) => wire === 'stdio' || era === 'modern'))(
  'over %s with protocol %s a server of the %s era tells of a changed list [pool.eras]',
  async (wire, protocol) => {
    const { record } = await bothEras(wire, protocol);
    const { pool } = openPool({ limits: { minToolsTtlMs: 60_000 } });
    await pool.listTools(record);
    expect(await textOf(call(pool, record, 'grow'))).toBe('extra_1');
    await eventually(async () => {
      const { tools } = await pool.listTools(record);
      expect(tools.map(({ name }) => name)).toContain('extra_1');
    });
    expect(await textOf(call(pool, record, 'extra_1'))).toBe('extra_1');
  },
);

it('over HTTP a call of the new era says in its headers what it is, and nobody is told goodbye [pool.eras]', async () => {
  const { record, trail } = await bothEras('http', 'auto');
  const { pool } = openPool();
  await textOf(call(pool, record, 'echo', { message: 'Grüße' }));
  await textOf(call(pool, record, 'echo', { message: 'plain' }));
  await pool.close();
  const seen = trail().map((line) => JSON.parse(line));
  const echo = { http: 'POST', method: 'tools/call', name: 'echo' };
  expect(seen).toContainEqual({ ...echo, message: `=?base64?${Buffer.from('Grüße').toString('base64')}?=` });
  expect(seen).toContainEqual({ ...echo, message: 'plain' });
  expect(seen.filter(({ method }) => method === 'server/discover')).toHaveLength(1);
  expect(seen.filter(({ http }) => http !== 'POST')).toEqual([]);
});

it.each(['stdio', 'http'] as const)(
  'over %s a server gets its own state back, a few times, and no answer to a question [pool.eras.input]',
  async (wire) => {
    const { record } = await bothEras(wire, 'auto');
    const { pool } = openPool();
    expect(await textOf(call(pool, record, 'again', { rounds: 10 }))).toBe('after 10');
    const { error } = await call(pool, record, 'again', { rounds: 11 });
    expect(error).toMatchObject({ code: 'mcp_tool_error', message: expect.stringContaining('requested more input') });
    expect((await call(pool, record, 'ask')).ok).toBe(false);
  },
);

it.each(['stdio', 'http'] as const)(
  'over %s a server of the new era alone is no server of the old [pool.eras]',
  async (wire) => {
    const { record } = await bothEras(wire, 'auto', { ERAS: 'modern' });
    const { pool } = openPool();
    expect(await textOf(call(pool, record, 'era'))).toBe('modern');
    const old = await call(pool, { ...record, server_id: 'old', protocol: 'legacy' }, 'era');
    expect(old.error).toMatchObject({ code: 'mcp_unavailable' });
  },
);

it('a server of the old era alone is no server of the new [pool.eras]', async () => {
  const { pool } = openPool();
  const record = { ...stdioRecord('tiny', 'tiny.mjs'), protocol: '2026-07-28' } as const;
  await expect(pool.listTools(record)).rejects.toThrow(
    'it does not support protocol version 2026-07-28, which the server config requires (protocol)',
  );
});

describe('a server that does not bear the question for its era', () => {
  it.each([
    ['silence', ['start', 'asked', 'initialize', 'start', 'initialize']],
    ['exit', ['start', 'asked', 'start', 'initialize', 'start', 'initialize']],
  ])('(%s) is greeted the old way, and not asked again [pool.eras.silent]', async (whenAsked, expected) => {
    const file = join(tempDir(), 'trail');
    const env = { TRAIL: file, WHEN_ASKED: whenAsked };
    const record = stdioRecord('unaskable', 'unaskable.mjs', { env, ...patient });
    const { pool } = openPool({ limits: { probeTimeoutMs: 1_000, failureTtlMs: 1_000 } });
    expect(await textOf(call(pool, record, 'echo', { message: 'a' }))).toBe('a');
    expect((await call(pool, record, 'end')).ok).toBe(false);
    expect(await textOf(call(pool, record, 'echo', { message: 'b' }))).toBe('b');
    expect(readFileSync(file, 'utf8').trim().split('\n')).toEqual(expected);
  });

  it('but starts slowly is asked again, and waited for from then on [pool.eras.slow]', async () => {
    const file = join(tempDir(), 'trail');
    const env = { TRAIL: file, WHEN_ASKED: '600', MCP_ERA: 'modern' };
    const record = stdioRecord('slow', 'unaskable.mjs', { env, ...patient });
    const { pool, log } = openPool({ limits: { probeTimeoutMs: 200, failureTtlMs: 1_000 } });
    expect(await textOf(call(pool, record, 'echo', { message: 'a' }))).toBe('a');
    expect((await call(pool, record, 'end')).ok).toBe(false);
    expect(await textOf(call(pool, record, 'echo', { message: 'b' }))).toBe('b');
    expect(log.flatMap(({ event, protocolVersion }) => (event === 'connected' ? [protocolVersion] : []))).toEqual([
      '2026-07-28',
      '2026-07-28',
    ]);
    // Once in vain, and then once for each connection.
    const lines = readFileSync(file, 'utf8').split('\n');
    expect(lines.filter((line) => line === 'start')).toHaveLength(3);
  });

  it('and starts slowly is waited for where its record names its version [pool.eras.slow]', async () => {
    const env = { TRAIL: join(tempDir(), 'trail'), WHEN_ASKED: '600', MCP_ERA: 'modern' };
    const record = { ...stdioRecord('slow', 'unaskable.mjs', { env, ...patient }), protocol: '2026-07-28' } as const;
    const { pool } = openPool({ limits: { probeTimeoutMs: 200 } });
    expect(await textOf(call(pool, record, 'echo', { message: 'a' }))).toBe('a');
  });

  it.each([
    ['says nothing', null],
    ['fails', 500],
  ])('over HTTP (it %s) is greeted the old way [pool.eras.silent]', async (_what, status) => {
    const methods: string[] = [];
    const server = createServer(async (request, response) => {
      if (request.method !== 'POST') return void response.writeHead(405).end();
      const { id, method } = JSON.parse(Buffer.concat(await request.toArray()).toString());
      methods.push(method);
      if (method === 'server/discover') {
        if (status !== null) response.writeHead(status).end();
        return;
      }
      if (id === undefined) return void response.writeHead(202).end();
      const serverInfo = { name: 'old', version: '1' };
      const hello = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
      const result = method === 'initialize' ? hello : { tools: [{ name: 'old', inputSchema: { type: 'object' } }] };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close().closeAllConnections());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const { pool } = openPool({ limits: { probeTimeoutMs: 300 } });
    const { tools } = await pool.listTools(httpRecord('old', 'streamable_http', url, patient));
    expect(tools.map(({ name }) => name)).toEqual(['old']);
    expect(methods).toEqual(['server/discover', 'initialize', 'notifications/initialized', 'tools/list']);
  });
});
