import { createServer } from 'node:net';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import type { BackendError } from '../../../../src/agent/chat/backend.ts';
import { MAX_PROVIDER_MESSAGE_BYTES } from '../../../../src/agent/chat/backends/failures.ts';
import { OpenAiBackend } from '../../../../src/agent/chat/backends/openai.ts';
import type { CompiledOpenAiBackend } from '../../../../src/config/host/host-config.ts';
import { NO_PROXY } from '../../../../src/config/host/proxy.ts';
import { Secret } from '../../../../src/server/secrets/secret.ts';
import { FakeTiming } from './fake-timing.ts';
import {
  aFewTurns,
  chat,
  compiledBackend,
  completionBody,
  deltaChunk,
  event,
  type Handler,
  never,
  ProviderServer,
  sendJson,
  startStream,
} from './provider-server.ts';

const KEY = 'sk-very/secret+key"1234567890';
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function open(handler: Handler, changes: Partial<CompiledOpenAiBackend> = {}) {
  const provider = await ProviderServer.start(handler);
  cleanups.push(() => provider.stop());
  const backend = new OpenAiBackend(compiledBackend(provider.baseUrl, changes), {
    proxy: NO_PROXY,
    timing: new FakeTiming(),
  });
  cleanups.push(() => backend.close());
  return { provider, backend };
}

async function failure(backend: OpenAiBackend, request = chat()): Promise<BackendError> {
  return backend.complete(request, never).then(
    () => expect.fail('the request should have failed'),
    (error) => error,
  );
}

describe('a request', () => {
  it('is posted as it is, with the key and the configured headers, and its answer returned [chat.backend.openai]', async () => {
    const { provider, backend } = await open((response) => sendJson(response, 200, completionBody('hello')), {
      apiKey: new Secret(KEY),
      headers: new Map([['x-org', new Secret('acme')]]),
    });
    const request = chat('hi', { temperature: 0.5, tool_choice: 'auto', tools: [{ type: 'function' }] });
    await expect(backend.complete(request, never)).resolves.toEqual(completionBody('hello'));
    const [seen] = provider.requests;
    expect(seen?.url).toBe('/v1/chat/completions');
    expect(seen?.body).toEqual(request);
    expect(seen?.headers).toMatchObject({
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      'x-org': 'acme',
    });
  });

  it('keeps the query of base_url and bears a slash at the end of its path [chat.backend.openai]', async () => {
    const { provider } = await open((response) => sendJson(response, 200, completionBody()));
    const backend = new OpenAiBackend(compiledBackend(`${provider.baseUrl}/?api-version=1`), { proxy: NO_PROXY });
    cleanups.push(() => backend.close());
    await backend.complete(chat(), never);
    expect(provider.requests[0]?.url).toBe('/v1/chat/completions?api-version=1');
    expect(provider.requests[0]?.headers.authorization).toBeUndefined();
  });

  it('goes over the connection of the one before', async () => {
    const { provider, backend } = await open((response) => sendJson(response, 200, completionBody()));
    for (let i = 0; i < 5; i++) {
      await backend.complete(chat(), never);
      await aFewTurns();
    }
    expect(provider.requests).toHaveLength(5);
    expect(provider.connections).toBe(1);
  });

  it('keeps the connection after an error answer too', async () => {
    const { provider, backend } = await open((response) => sendJson(response, 400, { error: { message: 'no' } }));
    for (let i = 0; i < 3; i++) {
      await failure(backend);
      await aFewTurns();
    }
    expect(provider.connections).toBe(1);
  });

  it('runs beside others [chat.backend.openai]', async () => {
    const waiting: (() => void)[] = [];
    const { provider, backend } = await open((response, seen) => {
      waiting.push(() => sendJson(response, 200, completionBody(JSON.stringify(seen.body.messages))));
      if (waiting.length === 20) for (const answer of waiting) answer();
    });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => backend.complete(chat(`n${i}`), never)));
    expect(answers.every((answer, i) => JSON.stringify(answer).includes(`n${i}\\`))).toBe(true);
    expect(provider.connections).toBe(20);
  });
});

describe('an answer that is no completion', () => {
  it.each([
    [400, 'invalid_request', false],
    [401, 'unauthorized', false],
    [403, 'forbidden', false],
    [404, 'not_found', false],
    [408, 'timeout', true],
    [413, 'request_too_large', false],
    [418, 'provider_error', false],
    [422, 'invalid_request', false],
    [429, 'rate_limited', true],
    [500, 'provider_error', true],
    [503, 'provider_error', true],
  ])('status %i becomes %s, retryable %s [chat.backend.errors]', async (status, code, retryable) => {
    const { backend } = await open((response) => sendJson(response, status, { error: { message: 'the reason' } }));
    const error = await failure(backend);
    expect(error).toMatchObject({ name: 'BackendError', code, status, retryable });
    expect(error.message).toContain(`status ${status}: the reason`);
    expect(error.message).toContain('"main"');
  });

  it.each([
    ['{"error":{"message":"m1"}}', 'm1'],
    ['{"error":"m2"}', 'm2'],
    ['[{"error":{"message":"m3"}}]', 'm3'],
    ['{"message":"m4"}', 'm4'],
    ['{"detail":"m5"}', 'm5'],
    ['{"detail":[{"loc":["x"]}]}', '{"detail":[{"loc":["x"]}]}'],
    ['  upstream down\n', 'upstream down'],
    ['null', 'null'],
  ])("shows the provider's message of %s [chat.backend.errors]", async (body, shown) => {
    const { backend } = await open((response) => response.writeHead(400).end(body));
    expect((await failure(backend)).message).toBe(`backend "main" responded with status 400: ${shown}`);
  });

  it('has its message cut on a character at 2 KiB [chat.backend.errors]', async () => {
    const { backend } = await open((response) => sendJson(response, 400, { error: { message: 'ä€'.repeat(2000) } }));
    const { message } = await failure(backend);
    expect(Buffer.byteLength(message)).toBeLessThan(MAX_PROVIDER_MESSAGE_BYTES + 100);
    expect(message).toMatch(/(ä€)+ä?…$/);
  });

  it('is not shown at all when it is a page of its own [chat.backend.errors]', async () => {
    const { provider, backend } = await open((response) => response.writeHead(400).end('x'.repeat(200_000)));
    expect((await failure(backend)).message).toBe('backend "main" responded with status 400');
    await provider.until(() => provider.openSockets === 0);
  });

  it('is a redirect: base_url is to be corrected [chat.backend.errors]', async () => {
    const { provider, backend } = await open((response) => response.writeHead(308, { location: '/elsewhere' }).end());
    expect(await failure(backend)).toMatchObject({ code: 'provider_error', status: 308 });
    expect(provider.requests).toHaveLength(1);
    expect((await failure(backend)).message).toContain('correct base_url');
  });

  it.each([
    ['<html>', 'it is not JSON: "<html>"'],
    ['{"choices":[', 'it is not JSON'],
    ['', 'it is not JSON'],
    ['[1]', 'it is not a JSON object'],
    ['{}', 'no choices[0].message'],
    ['{"choices":[]}', 'no choices[0].message'],
    ['{"choices":[{"delta":{}}]}', 'no choices[0].message'],
  ])('is %j with status 200: bad_response [chat.backend.errors]', async (body, reason) => {
    const { provider, backend } = await open((response) => response.writeHead(200).end(body));
    const error = await failure(backend);
    expect(error).toMatchObject({ code: 'bad_response', retryable: false });
    expect(error.message).toContain(reason);
    expect(provider.requests).toHaveLength(1);
  });

  it('is an error object with status 200 [chat.backend.errors]', async () => {
    const { backend } = await open((response) => sendJson(response, 200, { error: { code: 429, message: 'slow' } }));
    expect(await failure(backend)).toMatchObject({ code: 'rate_limited', status: 429, retryable: true });
  });

  it('is not HTTP at all [chat.backend.errors]', async () => {
    const server = createServer((socket) => socket.on('error', () => {}).end('SSH-2.0-OpenSSH\r\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    cleanups.push(async () => void server.close());
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const backend = new OpenAiBackend(compiledBackend(`http://127.0.0.1:${port}/v1`), { proxy: NO_PROXY });
    cleanups.push(() => backend.close());
    const error = await failure(backend);
    expect(error).toMatchObject({ code: 'bad_response', retryable: false });
    expect(error.message).toContain('not HTTP');
  });
});

describe('the size of an answer', () => {
  it.each<[string, Handler]>([
    ['announced', (response) => response.writeHead(200, { 'content-length': 5000 }).write('x'.repeat(3000))],
    [
      'in chunks',
      (response) => {
        response.writeHead(200).write('{"choices":"');
        for (let i = 0; i < 40; i++) response.write('x'.repeat(100));
      },
    ],
    [
      'streamed',
      (response) => {
        startStream(response);
        for (let i = 0; i < 40; i++) response.write(event(deltaChunk({ content: 'x'.repeat(100) })));
      },
    ],
  ])('is bounded, %s, and the connection dropped', async (_, handler) => {
    const { provider, backend } = await open(handler, { maxResponseBytes: 2000 });
    const error = await failure(backend);
    expect(error).toMatchObject({ code: 'response_too_large', retryable: false });
    expect(error.message).toContain('2000 bytes');
    await provider.until(() => provider.openSockets === 0);
  });

  it('may be exactly the bound', async () => {
    const text = JSON.stringify(completionBody('fits'));
    const { backend } = await open((response) => response.end(text), { maxResponseBytes: text.length });
    await expect(backend.complete(chat(), never)).resolves.toEqual(completionBody('fits'));
  });
});

describe('the key', () => {
  const echoes: [string, Handler][] = [
    ['a JSON error', (response, seen) => sendJson(response, 401, { error: { message: seen.headers.authorization } })],
    ['a text error', (response, seen) => response.writeHead(403).end(`bad ${seen.headers.authorization}`)],
    ['a dump of the headers', (response, seen) => response.writeHead(500).end(JSON.stringify({ got: seen.headers }))],
    ['a configured header', (response, seen) => response.writeHead(400).end(`${seen.headers['x-secret']}`)],
    ['base64', (response) => response.writeHead(400).end(Buffer.from(KEY).toString('base64'))],
    ['a URL', (response) => response.writeHead(400).end(`https://x/?key=${encodeURIComponent(KEY)}`)],
    ['a 200 that is not JSON', (response, seen) => response.end(`oops ${seen.headers.authorization}`)],
    [
      'an error object with status 200',
      (response, seen) => sendJson(response, 200, { error: { message: seen.headers.authorization } }),
    ],
    [
      'an error inside a stream',
      (response, seen) => {
        startStream(response);
        response.end(event({ error: { message: seen.headers.authorization } }));
      },
    ],
    [
      'a broken event of a stream',
      (response, seen) => {
        startStream(response);
        response.end(`data: ${seen.headers.authorization}\n\n`);
      },
    ],
    [
      'a message cut in the middle of the key',
      (response, seen) =>
        response.writeHead(400).end('x'.repeat(MAX_PROVIDER_MESSAGE_BYTES - 20) + seen.headers.authorization),
    ],
  ];

  it.each(echoes)('is not in the error when the provider echoes it in %s', async (_, handler) => {
    const { provider, backend } = await open(handler, {
      apiKey: new Secret(KEY),
      headers: new Map([['x-secret', new Secret('header-secret')]]),
    });
    const error = await failure(backend);
    expect(provider.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    const everything = inspect(error, { depth: Number.POSITIVE_INFINITY, showHidden: true }) + JSON.stringify(error);
    for (const part of ['sk-very', 'very/secret', 'header-secret', Buffer.from(KEY).toString('base64').slice(0, 10)]) {
      expect(everything).not.toContain(part);
    }
    expect(error.message).toMatch(/\[redacted\]|…$/);
  });

  it('is not in what inspecting the backend shows', async () => {
    const { backend } = await open(() => {}, { apiKey: new Secret(KEY) });
    expect(inspect(backend, { depth: 20, showHidden: true })).not.toContain('sk-very');
  });
});
