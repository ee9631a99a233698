import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import type { RetryTiming } from '../../../../src/agent/chat/backends/failures.ts';
import { OpenAiBackend } from '../../../../src/agent/chat/backends/openai.ts';
import type { Wait } from '../../../../src/base/listeners.ts';
import type { CompiledOpenAiBackend } from '../../../../src/config/host/host-config.ts';
import { NO_PROXY } from '../../../../src/config/host/proxy.ts';
import { FAKE_NOW, FakeTiming, FrozenTiming } from './fake-timing.ts';
import {
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

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function backendFor(baseUrl: string, timing: RetryTiming, changes: Partial<CompiledOpenAiBackend> = {}) {
  const backend = new OpenAiBackend(compiledBackend(baseUrl, changes), { proxy: NO_PROXY, timing });
  cleanups.push(() => backend.close());
  return backend;
}

async function open(handler: Handler, changes: Partial<CompiledOpenAiBackend> = {}) {
  const provider = await ProviderServer.start(handler);
  cleanups.push(() => provider.stop());
  const timing = new FakeTiming();
  return { provider, timing, backend: backendFor(provider.baseUrl, timing, changes) };
}

it.each([429, 502, 503, 504])(
  'asks again after a %i, waiting longer each time [chat.backend.retry]',
  async (status) => {
    const { provider, timing, backend } = await open((response, _, count) => {
      if (count < 4) sendJson(response, status, { error: { message: 'later' } });
      else sendJson(response, 200, completionBody('at last'));
    });
    await expect(backend.complete(chat(), never)).resolves.toEqual(completionBody('at last'));
    expect(provider.requests).toHaveLength(4);
    expect(timing.slept).toEqual([250, 500, 1000]);
    expect(provider.requests[3]?.body).toEqual(provider.requests[0]?.body);
    expect(provider.connections).toBe(1);
  },
);

it.each([400, 401, 404, 500, 501])('does not ask again after a %i [chat.backend.retry]', async (status) => {
  const { provider, timing, backend } = await open((response) => sendJson(response, status, {}));
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({ status });
  expect(provider.requests).toHaveLength(1);
  expect(timing.slept).toEqual([]);
});

it.each([0, 1, 3])('gives up after max_retries = %i with the last answer [chat.backend.retry]', async (maxRetries) => {
  const { provider, backend } = await open(
    (response, _, count) => sendJson(response, 429, { error: { message: `try ${count}` } }),
    { maxRetries },
  );
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({
    code: 'rate_limited',
    message: `backend "main" responded with status 429: try ${maxRetries + 1}`,
  });
  expect(provider.requests).toHaveLength(maxRetries + 1);
});

it.each([
  ['7', 7000],
  ['1.5', 1500],
  ['0', 250],
  ['300', 60_000],
  [new Date(FAKE_NOW + 9000).toUTCString(), 9000],
  [new Date(FAKE_NOW - 9000).toUTCString(), 250],
  ['soon', 250],
])('waits as Retry-After %j asks, within the cap: %i ms', async (retryAfter, waited) => {
  const { timing, backend } = await open(
    (response, _, count) => {
      if (count === 1) sendJson(response, 503, {}, { 'retry-after': retryAfter });
      else sendJson(response, 200, completionBody());
    },
    { timeoutMs: 600_000 },
  );
  await backend.complete(chat(), never);
  expect(timing.slept).toEqual([waited]);
});

it('does not wait for what the deadline makes pointless', async () => {
  const { provider, timing, backend } = await open(
    (response) => sendJson(response, 429, { error: { message: 'in an hour' } }, { 'retry-after': '30' }),
    { timeoutMs: 30_000 },
  );
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({ code: 'rate_limited', retryable: true });
  expect(provider.requests).toHaveLength(1);
  expect(timing.slept).toEqual([]);
});

it.each([
  ['of the send', { timeoutMs: 600_000 }, 5_000, '7'],
  ['of the backend', { timeoutMs: 5_000 }, 600_000, '7'],
  ['of the send, beyond the cap', { timeoutMs: 600_000 }, 90_000, '3600'],
])(
  'a Retry-After longer than what is left %s fails at once, and says it [chat.backend.retry_after]',
  async (_, changes, timeLeftMs, retryAfter) => {
    const { provider, timing, backend } = await open(
      (response) => sendJson(response, 429, { error: { message: 'slow down' } }, { 'retry-after': retryAfter }),
      changes,
    );
    const asked = backend.complete(chat(), never, { session: 'chat-1', timeLeftMs });
    await expect(asked).rejects.toMatchObject({
      code: 'rate_limited',
      retryable: true,
      status: 429,
      retryAfterMs: Number(retryAfter) * 1000,
      message: `backend "main" responded with status 429: slow down (retry after ${retryAfter} s)`,
    });
    expect(provider.requests).toHaveLength(1);
    expect(timing.slept).toEqual([]);
  },
);

it('asks again when the connection breaks before the answer [chat.backend.retry]', async () => {
  const { provider, timing, backend } = await open((response, _, count) => {
    if (count <= 2) response.socket?.destroy();
    else sendJson(response, 200, completionBody());
  });
  await expect(backend.complete(chat(), never)).resolves.toEqual(completionBody());
  expect(provider.requests).toHaveLength(3);
  expect(timing.slept).toEqual([250, 500]);
});

it('says where nobody listens, after its retries [chat.backend.retry]', async () => {
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const address = closed.address();
  const origin = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  closed.close();
  await once(closed, 'close');
  const timing = new FakeTiming();
  const error = await backendFor(`${origin}/v1`, timing)
    .complete(chat(), never)
    .catch((reason) => reason);
  expect(error).toMatchObject({ code: 'connection_failed', retryable: true, status: undefined });
  expect(error.message).toContain(origin);
  expect(error.message).toContain('ECONNREFUSED');
  expect(timing.slept).toEqual([250, 500, 1000]);
});

it('opens a connection within connect_timeout_ms, its TLS handshake included [chat.backend.deadline]', async () => {
  let connections = 0;
  const second = Promise.withResolvers<void>();
  const mute = createServer((socket) => {
    if (++connections === 2) second.resolve();
    socket.on('error', () => {});
    cleanups.push(async () => void socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(mute, 'listening');
  cleanups.push(async () => void mute.close());
  const address = mute.address();
  const timing = new FakeTiming();
  const backend = backendFor(`https://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`, timing, {
    connectTimeoutMs: 50,
    maxRetries: 1,
  });
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({
    code: 'connection_failed',
    message: expect.stringContaining('UND_ERR_CONNECT_TIMEOUT'),
  });
  expect(timing.slept).toHaveLength(1);
  await second.promise;
});

it('never asks again once the answer has begun [chat.backend.no_retry_after_answer]', async () => {
  const { provider, timing, backend } = await open((response) => {
    response.writeHead(200, { 'content-length': 1000 }).write('{"choices":', () => response.socket?.destroy());
  });
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({ code: 'connection_failed', retryable: true });
  expect(provider.requests).toHaveLength(1);
  expect(timing.slept).toEqual([]);
});

it('never asks again once a stream has begun [chat.backend.no_retry_after_answer]', async () => {
  const { provider, timing, backend } = await open((response) => {
    startStream(response);
    response.write(event(deltaChunk({ content: 'half a' })), () => response.socket?.destroy());
  });
  await expect(backend.complete(chat('hi', { stream: true }), never)).rejects.toMatchObject({ code: 'stream_broken' });
  expect(provider.requests).toHaveLength(1);
  expect(timing.slept).toEqual([]);
});

it('stops waiting for a retry when the caller aborts', async () => {
  const { provider } = await open((response) => sendJson(response, 503, {}));
  const timing = new FrozenTiming();
  const controller = new AbortController();
  const answer = backendFor(provider.baseUrl, timing).complete(chat(), controller.signal);
  await timing.asleep;
  const reason = new Error('the guest is gone');
  controller.abort(reason);
  await expect(answer).rejects.toBe(reason);
  expect(provider.requests).toHaveLength(1);
});

it('stops waiting for a retry when the deadline passes [chat.backend.deadline]', async () => {
  const { provider } = await open((response) => sendJson(response, 503, {}));
  const answer = backendFor(provider.baseUrl, new FrozenTiming(), { timeoutMs: 1000 }).complete(chat(), never);
  await expect(answer).rejects.toMatchObject({ code: 'timeout', retryable: true });
});

it('stops waiting for a retry when the backend is closed', async () => {
  const { provider } = await open((response) => sendJson(response, 503, {}));
  const timing = new FrozenTiming();
  const backend = backendFor(provider.baseUrl, timing);
  const answer = backend.complete(chat(), never);
  answer.catch(() => {});
  await timing.asleep;
  await backend.close();
  await expect(answer).rejects.toMatchObject({ code: 'backend_closed' });
});

it('tells what it waits for: the answer, and another try', async () => {
  const begun: Wait[] = [];
  let over = 0;
  const waiting = (wait: Wait) => {
    begun.push(wait);
    return () => void over++;
  };
  const provider = await ProviderServer.start((response, _, count) => {
    if (count === 1) sendJson(response, 429, { error: { message: 'slow down' } }, { 'retry-after': '7' });
    else sendJson(response, 200, completionBody());
  });
  cleanups.push(() => provider.stop());
  const config = compiledBackend(provider.baseUrl, { timeoutMs: 60_000 });
  const backend = new OpenAiBackend(config, { proxy: NO_PROXY, timing: new FakeTiming(), waiting });
  cleanups.push(() => backend.close());
  await backend.complete(chat('hi', { model: 'm-1' }), never);
  const answer = { what: 'a response of backend "main" (m-1)', atMostMs: 60_000 };
  const again = 'a retry: backend "main" responded with status 429: slow down (retry after 7 s)';
  expect(begun).toEqual([answer, { what: again, atMostMs: 7_000 }, answer]);
  expect(over).toBe(3);
});
