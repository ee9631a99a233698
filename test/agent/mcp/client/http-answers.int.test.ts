import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MODERN_VERSION } from '../../../../src/agent/mcp/client/open-session.ts';
import { eraHas, serverEra } from '../../../support/server-era.ts';
import { listedFor } from './http-answers.ts';
import { call, httpRecord, openPool, textOf } from './pool-samples.ts';

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface Message {
  readonly id?: number;
  readonly method?: string;
}

/** A server with one tool, `work`, whose next calls get the answers given here before they work. */
const startServer = (...answers: Answer[]) => startNaming(true, answers);

async function startNaming(sessions: boolean, answers: Answer[]) {
  const seen = { initialized: 0, calls: 0, sessions: new Set<string>() };
  const server = createServer((request, response) => void serve(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close().closeAllConnections());

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const message = JSON.parse(Buffer.concat(await request.toArray()).toString()) as Message;
    if (message.id === undefined) return void response.writeHead(202).end();
    if (message.method === 'server/discover' && serverEra() === 'legacy') return void response.writeHead(404).end();
    const session = request.headers['mcp-session-id'];
    if (typeof session === 'string') seen.sessions.add(session);
    const reply = (result: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(200, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
    };
    if (message.method === 'server/discover') {
      seen.initialized += 1;
      return reply({ supportedVersions: [MODERN_VERSION], capabilities: { tools: {} }, ...listedFor() });
    }
    if (message.method === 'initialize') {
      seen.initialized += 1;
      const capabilities = { tools: {} };
      const hello = { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'x', version: '1' } };
      return reply(hello, sessions ? { 'mcp-session-id': `session-${seen.initialized}` } : {});
    }
    if (message.method === 'tools/list') {
      return reply({ tools: [{ name: 'work', inputSchema: { type: 'object' } }], ...listedFor() });
    }
    seen.calls += 1;
    const answer = answers.shift();
    if (answer === undefined) return reply({ content: [{ type: 'text', text: `done in ${session}` }] });
    const { status, headers = {}, body = '' } = answer;
    response.writeHead(status, headers).end(body.replace('"id":0', `"id":${JSON.stringify(message.id)}`));
  }

  const record = httpRecord('web', 'streamable_http', `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  return { record, seen };
}

const first = eraHas('sessions') ? 'session-1' : undefined;
const json = { 'content-type': 'application/json' };
/** An id of 0 stands for that of the call. */
const rpcError = (code: number, message: string, id: 0 | null = 0) =>
  JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } });

describe('an HTTP error', () => {
  it.each([400, 403, 429, 500, 502, 503])('%i keeps the session [pool.http.refusals]', async (status) => {
    const { record, seen } = await startServer({ status });
    const { pool } = openPool();
    const { error } = await call(pool, record, 'work');
    expect(error).toMatchObject({ code: 'mcp_unavailable', message: expect.stringContaining(`HTTP ${status}`) });
    expect(await textOf(call(pool, record, 'work'))).toBe(`done in ${first}`);
    expect(seen.initialized).toBe(1);
  });

  it.each([429, 500, 503])('%i may work later [pool.http.refusals]', async (status) => {
    const { record } = await startServer({ status });
    expect((await call(openPool().pool, record, 'work')).error).toMatchObject({ retryable: true });
  });

  it('with an error of JSON-RPC in its body is that error [pool.http.refusals]', async () => {
    const body = rpcError(-32602, 'the city is not known');
    const { record, seen } = await startServer({ status: 400, headers: json, body });
    const { pool } = openPool();
    expect((await call(pool, record, 'work')).error).toEqual({
      code: 'mcp_invalid_arguments',
      message: 'tool "work": the city is not known',
      retryable: false,
    });
    expect(await textOf(call(pool, record, 'work'))).toBe(`done in ${first}`);
    expect(seen.initialized).toBe(1);
  });

  it('for a scope that is missing is not to be tried again, and names it [pool.http.refusals]', async () => {
    const headers = { 'www-authenticate': 'Bearer error="insufficient_scope", scope="files:write"' };
    const { record, seen } = await startServer({ status: 403, headers });
    const { pool } = openPool();
    const { error } = await call(pool, record, 'work');
    expect(error).toMatchObject({ code: 'mcp_unavailable', retryable: false });
    expect(error?.message).toContain('insufficient_scope');
    expect(error?.message).toContain('files:write');
    expect(seen.initialized).toBe(1);
  });
});

if (eraHas('sessions'))
  describe('a session that the server does not know any more', () => {
    it.each([
      [404, ''],
      [400, rpcError(-32000, 'Bad Request: No valid session ID provided', null)],
    ])(
      'is made anew, and the call, which never ran, is sent once more: HTTP %i %s [pool.http.refusals]',
      async (status, body) => {
        const { record, seen } = await startServer({ status, headers: json, body });
        expect(await textOf(call(openPool().pool, record, 'work'))).toBe('done in session-2');
        expect(seen).toMatchObject({ initialized: 2, calls: 2 });
      },
    );

    it.each([
      ['answers the call itself', 404, rpcError(-32001, 'no such order, and the session is closed'), true],
      ['answers the call itself', 400, rpcError(-32000, 'the session of the shop is over'), true],
      ['never named a session', 404, '', false],
    ])(
      'is not taken for that where the server %s: the call may have run, and is not sent again: HTTP %i %s [pool.http.refusals]',
      async (_, status, body, sessions) => {
        const { record, seen } = await startNaming(sessions, [{ status, headers: json, body }]);
        const { error } = await call(openPool().pool, record, 'work');
        expect(error).toMatchObject({ code: 'mcp_unavailable', message: expect.stringContaining(`HTTP ${status}`) });
        expect(seen.calls).toBe(1);
      },
    );

    it('is not made anew for ever [pool.http.refusals]', async () => {
      const { record, seen } = await startServer({ status: 404 }, { status: 404 });
      const { error } = await call(openPool().pool, record, 'work');
      expect(error).toMatchObject({ code: 'mcp_unavailable', message: expect.stringContaining('HTTP 404') });
      expect(seen).toMatchObject({ initialized: 2, calls: 2 });
    });
  });
