import { afterEach, expect, it } from 'vitest';
import { OpenAiBackend } from '../../../../src/agent/chat/backends/openai.ts';
import { NO_PROXY } from '../../../../src/config/host/proxy.ts';
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

const DONE = 'data: [DONE]\n\n';
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function open(handler: Handler) {
  const provider = await ProviderServer.start(handler);
  cleanups.push(() => provider.stop());
  const backend = new OpenAiBackend(compiledBackend(provider.baseUrl), { proxy: NO_PROXY });
  cleanups.push(() => backend.close());
  return { provider, backend };
}

/** Sends the parts as separate portions, each after the one before has left the process. */
function stream(...parts: (string | Uint8Array)[]): Handler {
  return async (response) => {
    startStream(response);
    for (const part of parts) await new Promise((sent) => response.write(part, sent));
    response.end();
  };
}

const streamed = chat('hi', { stream: true });

const hello = {
  id: 'c1',
  object: 'chat.completion',
  created: 7,
  model: 'm',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Grüße 😀' } }],
};

it('assembles a stream that arrives in odd portions [chat.backend.stream]', async () => {
  const text =
    `: keep-alive\r\n\r\n${event(deltaChunk({ role: 'assistant', content: '' }))}` +
    `${event(deltaChunk({ content: 'Grüße' })).replaceAll('\n', '\r\n')}event: chunk\n` +
    `${event(deltaChunk({ content: ' 😀' }))}${event(deltaChunk({}, 'stop'))}${DONE}`;
  const bytes = Buffer.from(text);
  const portions = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) => bytes.subarray(i * 7, i * 7 + 7));
  const { backend } = await open(stream(...portions));
  await expect(backend.complete(streamed, never)).resolves.toEqual(hello);
});

it.each([
  [undefined, { include_usage: true }],
  [null, { include_usage: true }],
  [{ include_usage: false }, { include_usage: false }],
  [{ x: 1 }, { x: 1, include_usage: true }],
  ['odd', 'odd'],
])('sends stream_options %j as %j [chat.backend.stream]', async (given, sent) => {
  const { provider, backend } = await open(stream(event(deltaChunk({ content: 'x' }, 'stop')), DONE));
  await backend.complete(given === undefined ? streamed : { ...streamed, stream_options: given }, never);
  expect(provider.requests[0]?.body).toEqual({ ...streamed, stream_options: sent });
});

it('does not add stream_options where no stream is asked for [chat.backend.stream]', async () => {
  const { provider, backend } = await open((response) => sendJson(response, 200, completionBody()));
  await backend.complete(chat('hi', { stream: false }), never);
  expect(provider.requests[0]?.body).not.toHaveProperty('stream_options');
});

it('takes an answer in one piece where the provider knows no streams [chat.backend.stream]', async () => {
  const { backend } = await open((response) => sendJson(response, 200, completionBody('whole')));
  await expect(backend.complete(streamed, never)).resolves.toEqual(completionBody('whole'));
});

it.each([
  ['ends without [DONE]', [event(deltaChunk({ content: 'x' }, 'stop'))]],
  ['ends in [DONE] without a blank line', [event(deltaChunk({ content: 'x' }, 'stop')), 'data: [DONE]']],
  ['ends without its last blank line', [event(deltaChunk({ content: 'x' }, 'stop')).trimEnd()]],
])('takes a stream that %s but is finished [chat.backend.stream]', async (_, parts) => {
  const { backend } = await open(stream(...parts));
  await expect(backend.complete(streamed, never)).resolves.toMatchObject({
    choices: [{ finish_reason: 'stop', message: { content: 'x' } }],
  });
});

it.each([
  ['after half an answer', [event(deltaChunk({ content: 'x' }))]],
  ['before anything', []],
  ['in the middle of an event', [event(deltaChunk({ content: 'x' })), 'data: {"choices":[{"del']],
  ['with one of two choices', [event(deltaChunk({}, 'stop', 0)), event(deltaChunk({ content: 'x' }, null, 1))]],
])('calls a stream broken that ends %s [chat.backend.stream]', async (_, parts) => {
  const { provider, backend } = await open(stream(...parts));
  await expect(backend.complete(streamed, never)).rejects.toMatchObject({ code: 'stream_broken', retryable: true });
  expect(provider.requests).toHaveLength(1);
});

it('calls a stream broken whose connection breaks [chat.backend.stream]', async () => {
  const { backend } = await open((response) => {
    startStream(response);
    response.write(event(deltaChunk({ content: 'x' }, 'stop')), () => response.socket?.destroy());
  });
  await expect(backend.complete(streamed, never)).rejects.toMatchObject({ code: 'stream_broken' });
});

it.each([
  [
    { message: 'overloaded', code: 529 },
    { code: 'provider_error', status: 529, retryable: true },
  ],
  [
    { message: 'overloaded', code: '429' },
    { code: 'rate_limited', status: 429, retryable: true },
  ],
  [
    { message: 'overloaded', type: 'server_error' },
    { code: 'provider_error', status: undefined, retryable: false },
  ],
  ['overloaded', { code: 'provider_error', retryable: false }],
])('reports the error object %j inside a stream [chat.backend.stream]', async (inside, expected) => {
  const { provider, backend } = await open(stream(event(deltaChunk({ content: 'x' })), event({ error: inside }), DONE));
  const error = await backend.complete(streamed, never).catch((reason) => reason);
  expect(error).toMatchObject(expected);
  expect(error.message).toContain('overloaded');
  expect(provider.requests).toHaveLength(1);
});

it.each([
  ['is not JSON', 'data: {oops\n\n'],
  ['is not a JSON object', 'data: [1]\n\n'],
])('refuses an event that %s [chat.backend.stream]', async (reason, part) => {
  const { backend } = await open(stream(part, DONE));
  const error = await backend.complete(streamed, never).catch((cause) => cause);
  expect(error).toMatchObject({ code: 'bad_response' });
  expect(error.message).toContain(reason);
});

it('refuses a stream without any choice [chat.backend.stream]', async () => {
  const { backend } = await open(stream(DONE));
  await expect(backend.complete(streamed, never)).rejects.toMatchObject({ code: 'bad_response' });
});

it('uses the connection of a finished stream again, also when its end comes late', async () => {
  let finish = () => {};
  const { provider, backend } = await open((response) => {
    startStream(response);
    response.write(event(deltaChunk({ content: 'x' }, 'stop')) + DONE);
    finish = () => response.end();
  });
  for (let i = 0; i < 10; i++) {
    await backend.complete(streamed, never);
    finish();
    await aFewTurns();
  }
  expect(provider.requests).toHaveLength(10);
  expect(provider.connections).toBeLessThan(10);
});

it('answers at [DONE] and drops a connection that the provider then keeps busy [chat.backend.stream]', async () => {
  const { provider, backend } = await open((response) => {
    startStream(response);
    response.write(event(deltaChunk({ content: 'x' }, 'stop')) + DONE);
  });
  await expect(backend.complete(streamed, never)).resolves.toMatchObject({ object: 'chat.completion' });
  await provider.until(() => provider.openSockets === 0);
});
