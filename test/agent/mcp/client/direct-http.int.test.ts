import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { HttpCalls } from '../../../../src/agent/mcp/client/transport/http-calls.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import { EgressDenied, EgressRules } from '../../../../src/server/egress/egress.ts';
import { eraHas } from '../../../support/server-era.ts';
import { answer, type Exchange, GREETING, json, openHttpAnswers, openStream, SESSION, text } from './http-answers.ts';
import { call, eventually, httpRecord, openPool, parsed, textOf } from './pool-samples.ts';

/** In the new era the list of tools takes the first own id. */
const FIRST_OWN_ID = eraHas('listsOfTheLibrary') ? 1 : 2;
const ownId = (nth: number) => `spear-${FIRST_OWN_ID + nth}`;
const session = eraHas('sessions') ? SESSION : undefined;
const patient = { budgets: { tool_timeout_ms: 60_000, connect_timeout_ms: 10_000 } };
const recordAt = (url: string, http: Record<string, unknown> = {}) =>
  httpRecord('web', 'streamable_http', url, patient, http);

/** A pool and a server whose calls are answered by `onCall`. */
async function open(onCall: (exchange: Exchange) => void, more: Partial<Parameters<typeof openHttpAnswers>[0]> = {}) {
  const server = await openHttpAnswers({ onCall, ...more });
  const sample = openPool({ variables: { MCP_TOKEN: 'tok-12345' }, limits: { maxMessageBytes: 64 * 1024 } });
  const record = recordAt(server.url);
  return { ...sample, server, record, say: (args: JsonObject = {}) => call(sample.pool, record, 'say', args) };
}

const event = (id: string | null, data: string) => `${id === null ? '' : `id: ${id}\n`}data: ${data}\n\n`;
const ways = [
  ['JSON', ({ response, id }: Exchange, value: string) => void json(response, answer(id, value))],
  [
    'a stream',
    ({ response, id }: Exchange, value: string) => void openStream(response).end(event(null, answer(id, value))),
  ],
] as const;

describe.each(ways)('a call over HTTP that is answered by %s', (_, reply) => {
  it('goes beside the library from the first of a connection on', async () => {
    const { say } = await open((exchange) => reply(exchange, String(exchange.id)));
    expect([await textOf(say()), await textOf(say())]).toEqual([ownId(0), ownId(1)]);
  });

  it('brings the headers of the session and of the record', async () => {
    const server = await openHttpAnswers({
      onCall: (exchange) => reply(exchange, JSON.stringify(exchange.request.headers)),
    });
    const { pool } = openPool({ variables: { MCP_TOKEN: 'tok-12345' } });
    const given = {
      'X-Team': 'blue',
      Accept: 'application/cbor',
      'Mcp-Session-Id': 'mine',
      'Content-Type': 'text/plain',
    };
    const record = recordAt(server.url, { auth_ref: 'env:MCP_TOKEN', headers: given });
    const headers = JSON.parse(await textOf(call(pool, record, 'say')));
    expect(headers).toMatchObject({
      authorization: 'Bearer [redacted]',
      accept: '[redacted], application/json, text/event-stream', // what a record sets is not shown
      'content-type': 'application/json',
      'mcp-protocol-version': eraHas('sessions') ? '2025-11-25' : '2026-07-28',
      'x-team': 'blue',
    });
    expect(headers['mcp-session-id']).toBe(session);
  });

  it('finds its answer among all that are under way', async () => {
    const waiting: Exchange[] = [];
    const { say } = await open((exchange) => {
      waiting.push(exchange);
      if (waiting.length === 5) for (const each of waiting.reverse()) reply(each, `for ${each.id}`);
    });
    const found = await Promise.all(Array.from({ length: 5 }, () => textOf(say())));
    expect(found).toEqual(found.map((_each, i) => `for ${ownId(i)}`));
  });

  it('with an answer beyond the bound fails alone, showing its beginning', async () => {
    let closed: Promise<unknown> | null = null;
    const { say, pool } = await open((exchange) => {
      const { big } = (exchange.body.params as { arguments: { big?: boolean } }).arguments;
      closed = big ? once(exchange.response, 'close') : closed;
      reply(exchange, big ? 'h'.repeat(200_000) : 'small');
    });
    const outcome = await say({ big: true });
    expect(outcome.error).toMatchObject({ code: 'mcp_output_too_large', retryable: false });
    expect(parsed(outcome).content?.[0]?.text).toMatch(/^h+… \[truncated\]$/);
    await closed;
    expect(await textOf(say())).toBe('small');
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 0 });
  });

  it('and refused with an error says which', async () => {
    const { say } = await open(({ response, id }) => {
      const error = JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32602, message: 'too odd' } });
      if (reply === ways[0][1]) json(response, error);
      else openStream(response).end(event(null, error));
    });
    const message = 'tool "say": too odd';
    expect((await say()).error).toEqual({ code: 'mcp_invalid_arguments', message, retryable: false });
  });

  it('takes no other answer for its own', async () => {
    const { say, pool } = await open(({ response, id }) => {
      const others = [
        answer(`${id}0`, 'other'),
        answer(3, 'other'),
        answer(null, 'other'),
        '{"jsonrpc":"2.0"}',
        'nonsense',
      ];
      if (reply === ways[0][1]) json(response, answer(`${id}0`, 'other'));
      else openStream(response).end(others.map((data) => event(null, data)).join(''));
    });
    expect((await say()).error?.message).toContain('closed the stream without a response');
    expect(pool.stats().callsInFlight).toBe(0);
  });
});

describe('an answer as JSON', () => {
  it.each([
    ['no JSON', '{"jsonrpc":'],
    ['no message', '{"jsonrpc":"2.0","id":"spear-1","result":"text"}'],
    ['a text', '"text"'],
  ])('that is %s fails its call at once', async (_, body) => {
    const { say } = await open(({ response }) => void json(response, body));
    expect((await say()).error).toMatchObject({ code: 'mcp_unavailable', retryable: true });
  });

  it('may hold several messages', async () => {
    const { say } = await open(({ response, id }) => {
      json(
        response,
        `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},${answer(id, 'both')}]`,
      );
    });
    expect(await textOf(say())).toBe('both');
  });

  it('in another form or encoding is refused by name', async () => {
    const forms = [{ 'content-type': 'text/html' }, { 'content-type': 'application/json', 'content-encoding': 'br' }];
    const { say } = await open(({ response, id }) => void response.writeHead(200, forms.shift()).end(answer(id, 'x')));
    expect((await say()).error?.message).toContain('Unexpected content type: text/html');
    expect((await say()).error?.message).toContain('Unexpected content encoding: br');
  });
});

describe('an answer as a stream', () => {
  it('may follow progress and requests of the server, and be followed by more', async () => {
    const { say, server } = await open(({ response, id }) => {
      const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: id, progress: 1 } };
      openStream(response);
      response.write(`: hello\n\n${event(null, JSON.stringify(progress))}`);
      response.write(event(null, '{"jsonrpc":"2.0","id":"theirs","method":"ping"}'));
      const whole = answer(id, 'done');
      for (const char of event(null, whole)) response.write(char);
      response.end(event(null, answer(id, 'twice')));
    });
    expect(await textOf(say())).toBe('done');
    expect(await textOf(say())).toBe('done');
    const pongs = () => server.seen.filter((method) => method === 'undefined');
    if (eraHas('requestsOfServers')) await eventually(() => expect(pongs()).toHaveLength(2));
  });

  if (eraHas('streamOfNotifications'))
    it('may come by the stream of another call, or by that for notifications', async () => {
      const accepted: string[] = [];
      let listening: Parameters<NonNullable<Parameters<typeof openHttpAnswers>[0]['onGet']>>[1] | null = null;
      const { say } = await open(
        ({ response, id }) => {
          if (accepted.length < 2) {
            accepted.push(id);
            response.writeHead(202).end();
            return;
          }
          listening?.write(event(null, answer(accepted[0], 'by notifications')));
          openStream(response).end(event(null, answer(accepted[1], 'by another')) + event(null, answer(id, 'own')));
        },
        {
          onGet: (_request, response) => {
            listening = response;
            openStream(response).flushHeaders();
          },
        },
      );
      const calls = [say()];
      await eventually(() => expect(accepted).toHaveLength(1));
      calls.push(say());
      await eventually(() => expect([accepted.length, listening === null]).toEqual([2, false]));
      calls.push(say());
      expect(await Promise.all(calls.map(textOf))).toEqual(['by notifications', 'by another', 'own']);
    });

  it('that ends without an answer, and could not be resumed, fails its call', async () => {
    const { say } = await open(({ response }) => void openStream(response).end(': nothing\n\n'));
    expect((await say()).error?.message).toContain('closed the stream without a response');
  });

  it('that breaks fails its call at once, and the next one has a new connection', async () => {
    const { say, pool } = await open(({ response, id, request }) => {
      if (id !== ownId(0) || pool.health()[0]?.reconnects !== 0) return void json(response, answer(id, 'back'));
      openStream(response).write(event('1', ''));
      response.flushHeaders();
      setImmediate(() => request.socket.destroy());
    });
    expect((await say()).error?.message).toMatch(/lost before the response arrived|UND_ERR_SOCKET|ECONNRESET/);
    expect(await textOf(say())).toBe('back');
    expect(pool.health()[0]?.reconnects).toBe(1);
  });
});

describe('a stream that the server closed in order', () => {
  it('is gone on with from the last event, as often as that brings something', async () => {
    let id = '';
    const { say, server } = await open(
      (exchange) => {
        id = exchange.id;
        openStream(exchange.response).end(`retry: 1\n${event('a1', '')}`);
      },
      {
        onGet: (request, response) => {
          const last = request.headers['last-event-id'];
          if (last === undefined) response.writeHead(405).end();
          else if (last === 'a1') openStream(response).end(event('a2', '{"jsonrpc":"2.0","method":"notifications/x"}'));
          else openStream(response).end(event('a3', answer(id, `after ${last}`)));
        },
      },
    );
    expect(await textOf(say())).toBe('after a2');
    expect(server.seen.filter((what) => what.startsWith('GET '))).toEqual(['GET a1', 'GET a2']);
  });

  it.each([
    ['refuses to go on', 405, 1],
    ['fails to go on', 500, 3],
  ])('by a server that %s fails its call', async (_, status, tries) => {
    const { say, server } = await open(
      ({ response }) => void openStream(response).end(`retry: 0\n${event('a1', '')}`),
      { onGet: (_request, response) => void response.writeHead(status).end() },
    );
    expect((await say()).error?.message).toContain('closed the stream without a response');
    expect(server.seen.filter((what) => what === 'GET a1')).toHaveLength(tries);
  });

  it('and says "retry: 0" is not asked again and again, for a call or for notifications', async () => {
    const empty = `retry: 0\n${event('a1', '')}`;
    const { pool, record, server } = await open(({ response }) => void openStream(response).end(empty), {
      onGet: (_request, response) => void openStream(response).end(empty),
    });
    const outcome = await call(pool, record, 'say', {}, { timeoutMs: 2_000 });
    expect(outcome.error?.code).toBe('mcp_timeout');
    const asked = server.seen.filter((what) => what.startsWith('GET'));
    // 100, 150, 225 ms and so on: at most six times in two seconds each.
    expect(asked.length).toBeGreaterThan(2);
    expect(asked.length).toBeLessThanOrEqual(14);
    const before = server.seen.filter((what) => what === 'GET a1').length;
    expect(before).toBeGreaterThan(1);
  });
});

describe('a call over HTTP that was cancelled', () => {
  it('is told to the server by its id, its stream ends, and a late answer reaches nobody', async () => {
    const held: Exchange[] = [];
    const { pool, record, server, say } = await open((exchange) => {
      if (held.length > 0) return void json(exchange.response, answer(exchange.id, 'next'));
      held.push(exchange);
      openStream(exchange.response).flushHeaders();
    });
    const cancel = new AbortController();
    const outcome = call(pool, record, 'say', {}, { signal: cancel.signal });
    await eventually(() => expect(held).toHaveLength(1));
    const [{ response, id }] = held as [Exchange];
    const closed = once(response, 'close');
    cancel.abort();
    expect((await outcome).error?.code).toBe('mcp_cancelled');
    response.write(event(null, answer(id, 'late')));
    await closed;
    const told = {
      method: 'notifications/cancelled',
      params: { requestId: id, reason: expect.stringContaining('the call was cancelled') },
    };
    if (eraHas('cancellationOverHttp')) expect(server.notifications.at(-1)).toMatchObject(told);
    else expect(server.notifications).toEqual([]);
    expect(await textOf(say())).toBe('next');
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 0 });
  });

  it('while its stream is between two requests asks for nothing more', async () => {
    const { pool, record, server } = await open(
      ({ response, id }) => void openStream(response).end(`retry: 400\n${event(`of ${id}`, '')}`),
    );
    expect((await call(pool, record, 'say', {}, { timeoutMs: 200 })).error?.code).toBe('mcp_timeout');
    // This one began later, so whatever the first would still ask for comes before.
    expect((await call(pool, record, 'say')).error?.message).toContain('closed the stream without a response');
    const asked = server.seen.filter((what) => what.startsWith('GET of'));
    expect(asked).toEqual([`GET of ${ownId(1)}`]);
  });
});

describe('a status', () => {
  it.each([
    [500, true, 'answered HTTP 500', 1],
    [401, false, 'rejected the credentials (HTTP 401)', 2],
    [403, false, 'denied access (HTTP 403)', 1],
    [302, true, 'HTTP 302, a redirect that is not followed', 2],
  ])(
    '%i fails the call, retryable: %s, as: %s; sessions with the next call: %i',
    async (status, retryable, message, sessions) => {
      let fails = true;
      const { say, pool, server } = await open(({ response, id }) => {
        if (!fails) return void json(response, answer(id, 'back'));
        fails = false;
        response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end('x'.repeat(100_000));
      });
      const { error } = await say();
      expect(error).toMatchObject({ code: 'mcp_unavailable', retryable });
      expect(error?.message).toContain(message);
      expect(await textOf(say())).toBe('back');
      expect(server.seen.filter((method) => method === GREETING)).toHaveLength(sessions);
      expect(pool.health()[0]?.reconnects).toBe(sessions - 1);
    },
  );

  it('307 is followed within the origin, with the call and its headers, a few times', async () => {
    const paths: string[] = [];
    const { say } = await open(({ request, response, id }) => {
      paths.push(`${request.url} ${request.headers['mcp-session-id']}`);
      if (paths.length < 3) response.writeHead(307, { location: `/mcp?hop=${paths.length}` }).end();
      else if (paths.length === 3) json(response, answer(id, 'there'));
      else response.writeHead(308, { location: `/mcp?hop=${paths.length}` }).end();
    });
    expect(await textOf(say())).toBe('there');
    expect(paths).toEqual([`/mcp ${session}`, `/mcp?hop=1 ${session}`, `/mcp?hop=2 ${session}`]);
    expect((await say()).error?.message).toContain('HTTP 308');
    expect(paths).toHaveLength(9);
  });

  it('307 elsewhere is not followed: no secret and no call goes there', async () => {
    const elsewhere = await openHttpAnswers({
      onCall: ({ response, id }) => void json(response, answer(id, 'stolen')),
    });
    const { say } = await open(({ response }) => void response.writeHead(307, { location: elsewhere.url }).end());
    expect((await say()).error?.message).toContain('HTTP 307, a redirect that is not followed');
    expect(elsewhere.seen).toEqual([]);
  });
});

it('an address that the rules deny is the reason of the failure, whenever a connection is made to it', async () => {
  const { createHttpClient } = await import('../../../../src/server/egress/http-client.ts');
  const client = await createHttpClient(new EgressRules({ allowAddresses: [] }));
  onTestFinished(() => client.close());
  const calls = new HttpCalls({
    serverId: 'web',
    target: { url: new URL('http://127.0.0.1:1/mcp'), headers: {} },
    dispatcher: client.dispatcher,
    tokens: null,
    maxMessageBytes: 1_000,
    session: () => ({ id: undefined, protocolVersion: undefined }),
    other: () => {},
    sendCancelled: async () => {},
    suspect: () => {},
  });
  const ask = async () => ({ action: 'decline', why: null }) as const;
  const error = await new Promise((resolve) => {
    const observer = { onResult: resolve, onError: resolve, ask, wantsProgress: false, onProgress: () => {} };
    calls.call({ tool: 'say', args: {}, headers: {}, continuation: null, meta: undefined }, observer);
  });
  expect(error).toBeInstanceOf(EgressDenied);
});

it('a server that is gone fails the call that finds out, with the reason of the system', async () => {
  const { say, server } = await open(
    ({ response, id }) => void json(response, JSON.stringify({ jsonrpc: '2.0', id, result: text('up') })),
  );
  expect(await textOf(say())).toBe('up');
  server.stop();
  expect((await say()).error).toMatchObject({ code: 'mcp_unavailable', retryable: true });
});
