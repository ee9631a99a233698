import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eraHas } from '../../../support/server-era.ts';
import { call, eventually, fixture, httpRecord, openPool, parsed, startHttp, textOf } from './pool-samples.ts';

const start = (env: Record<string, string> = {}) => startHttp(fixture('http.mjs'), [], env);
const patient = { budgets: { tool_timeout_ms: 60_000, connect_timeout_ms: 10_000 } };

const transports = [
  ['streamable_http', '/mcp', {}],
  ...(eraHas('answersByChoice')
    ? ([
        ['streamable_http', '/mcp', { RESUMABLE: '1' }],
        ['streamable_http', '/mcp', { JSON_ANSWERS: '1' }],
      ] as const)
    : []),
  ...(eraHas('oldTransport') ? ([['http_sse_legacy', '/sse', {}]] as const) : []),
] as const;
const kinds = transports.filter(([, , env]) => Object.keys(env).length === 0).map(([transport]) => transport);

describe.each(transports)('%s at %s with %o', (transport, path, env) => {
  it('serves calls', async () => {
    const { url } = await start(env);
    const { pool } = openPool();
    const record = httpRecord('web', transport, url(path));
    expect((await pool.listTools(record)).tools.map(({ name }) => name)).toContain('echo');
    const many = Array.from({ length: 30 }, (_, i) => textOf(call(pool, record, 'echo', { message: `m${i}` })));
    expect(await Promise.all(many)).toEqual(many.map((_, i) => `m${i}`));
  });

  it('fails a call in flight at once when the server dies', async () => {
    const { url, child } = await start(env);
    const { pool } = openPool();
    const record = httpRecord('web', transport, url(path), patient);
    expect(await textOf(call(pool, record, 'echo', { message: 'up' }))).toBe('up');
    const exited = once(child, 'exit');
    const hanging = call(pool, record, 'hang');
    const outcome = await call(pool, record, 'die');
    await exited;
    expect(outcome).toMatchObject({ ok: false, dispatched: true, error: { code: 'mcp_unavailable', retryable: true } });
    expect((await hanging).error).toMatchObject({ code: 'mcp_unavailable', retryable: true });
    expect(outcome.durationMs).toBeLessThan(10_000);
  });

  it('is connected again after the server was restarted', async () => {
    const first = await start(env);
    const { pool } = openPool();
    const record = httpRecord('web', transport, first.url(path), patient);
    const pid = await textOf(call(pool, record, 'pid'));
    first.child.kill('SIGKILL');
    await once(first.child, 'exit');
    await eventually(() => expect(pool.health()[0]?.state).toBe('degraded'));
    await start({ ...env, PORT: String(first.port) });
    expect(await textOf(call(pool, record, 'pid'))).not.toBe(pid);
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 1 });
  });

  it('is told of a call that was cancelled, and drops its stream', async () => {
    const { url } = await start(env);
    const { pool } = openPool();
    const record = httpRecord('web', transport, url(path));
    const outcome = await call(pool, record, 'hang', {}, { timeoutMs: 300 });
    expect(outcome.error?.code).toBe('mcp_timeout');
    await eventually(async () => {
      expect(JSON.parse(await textOf(call(pool, record, 'cancelled')))).toHaveLength(1);
      // The one that asks is the only one, beside that which listens for changes.
      expect(await textOf(call(pool, record, 'open_posts'))).toBe(eraHas('streamOfNotifications') ? '1' : '2');
    });
  });

  it('cannot make the host read 50 MB', async () => {
    const { url } = await start(env);
    const { pool } = openPool();
    const record = httpRecord('web', transport, url(path), patient);
    const outcome = await call(pool, record, 'huge', { bytes: 50_000_000 });
    expect(outcome).toMatchObject({ ok: false, error: { code: 'mcp_output_too_large', retryable: false } });
    expect(outcome.bytes).toBeLessThanOrEqual(65_536);
    expect(parsed(outcome).content?.[0]?.text).toMatch(/^h+… \[truncated\]$/);
    expect(await textOf(call(pool, record, 'echo', { message: 'still here' }))).toBe('still here');
  });

  it('sees its tools change', async () => {
    const { url } = await start(env);
    const { pool } = openPool();
    const record = httpRecord('web', transport, url(path));
    const before = await pool.listTools(record);
    await textOf(call(pool, record, 'grow'));
    await eventually(async () => {
      const after = await pool.listTools(record);
      expect(after.tools).toHaveLength(before.tools.length + 1);
      expect(after.version).not.toBe(before.version);
    });
  });
});

if (eraHas('answersByChoice'))
  describe('a stream that could be resumed', () => {
    it('is, when the server closed it in order', async () => {
      const { url } = await start({ RESUMABLE: '1' });
      const { pool } = openPool();
      const record = httpRecord('web', 'streamable_http', url('/mcp'), patient);
      expect(await textOf(call(pool, record, 'pause'))).toBe('resumed');
      expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 0 });
    });

    it('is not waited for when it breaks', async () => {
      const { url, child } = await start({ RESUMABLE: '1' });
      const { pool } = openPool();
      const record = httpRecord('web', 'streamable_http', url('/mcp'), patient);
      const hanging = call(pool, record, 'hang');
      await eventually(async () => expect(await textOf(call(pool, record, 'open_posts'))).toBe('2'));
      child.kill('SIGKILL');
      // Depending on whether its first bytes were here; not after attempts to resume it.
      expect((await hanging).error?.message).toMatch(/lost before the response arrived|UND_ERR_SOCKET|ECONNRESET/);
    });
  });

describe('headers and secrets', () => {
  it.each(kinds)('reach the server over %s', async (transport) => {
    const { url } = await start({ TOKEN: 'tok-12345' });
    const { pool } = openPool({ variables: { MCP_TOKEN: 'tok-12345' } });
    const path = transport === 'streamable_http' ? '/mcp' : '/sse';
    const record = httpRecord(
      'web',
      transport,
      url(path),
      {},
      { auth_ref: 'env:MCP_TOKEN', headers: { 'X-Team': 'blue' } },
    );
    const headers = JSON.parse(await textOf(call(pool, record, 'headers')));
    // It was right, or the server would have refused us; what it got is not shown to whoever asks it.
    expect(headers).toMatchObject({ authorization: 'Bearer [redacted]', 'x-team': 'blue' });
    expect(Object.keys(headers).filter((name) => name.startsWith('x-spear'))).toEqual([]);
  });

  it.each(kinds)('that are wrong are said to be, without being shown, over %s', async (transport) => {
    const { url } = await start({ TOKEN: 'tok-12345' });
    const { pool, log } = openPool({ variables: { MCP_TOKEN: 'wrong-678' } });
    const path = transport === 'streamable_http' ? '/mcp' : '/sse';
    const record = httpRecord('web', transport, url(path), {}, { auth_ref: 'env:MCP_TOKEN' });
    const outcome = await call(pool, record, 'headers');
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
    expect(outcome.error?.message).toContain('HTTP 401');
    expect(JSON.stringify([outcome, log, pool.health()])).not.toContain('wrong-678');
  });
});

describe('an address', () => {
  it('where nobody listens is down, and said so at once', async () => {
    const { pool } = openPool();
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    for (const transport of kinds) {
      const record = httpRecord(transport, transport, `http://127.0.0.1:${port}/mcp`, patient);
      const outcome = await call(pool, record, 'echo');
      expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: true } });
    }
    expect(pool.health().map(({ state }) => state)).toEqual(kinds.map(() => 'down'));
  });

  it('that accepts and never answers costs the time to connect and no more', async () => {
    const { pool } = openPool();
    const server = createServer(() => {}).listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    for (const transport of kinds) {
      const budgets = { budgets: { connect_timeout_ms: 400 } };
      const outcome = await call(
        pool,
        httpRecord(transport, transport, `http://127.0.0.1:${port}/mcp`, budgets),
        'echo',
      );
      expect(outcome.error?.code).toBe('mcp_timeout');
      expect(outcome.durationMs).toBeLessThan(10_000);
    }
  });

  it('that redirects elsewhere is not followed, so that no secret goes there', async () => {
    const seen: (string | undefined)[] = [];
    const elsewhere = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.end();
    }).listen(0, '127.0.0.1');
    await once(elsewhere, 'listening');
    const target = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/mcp`;
    const server = createServer((_request, response) => response.writeHead(307, { location: target }).end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => {
      for (const each of [server, elsewhere]) {
        each.closeAllConnections();
        each.close();
      }
    });
    const { pool } = openPool({ variables: { MCP_TOKEN: 'tok-12345' } });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const outcome = await call(
      pool,
      httpRecord('web', 'streamable_http', url, {}, { auth_ref: 'env:MCP_TOKEN' }),
      'echo',
    );
    expect(outcome.error?.code).toBe('mcp_unavailable');
    expect(seen).toEqual([]);
  });
});
