import { LLMock } from '@copilotkit/aimock';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ChatBackend } from '../../../../src/agent/chat/backend.ts';
import { openBackend } from '../../../../src/agent/chat/backends/open-backend.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import { loadHostConfig } from '../../../../src/config/host/host-config.ts';
import { FakeTiming } from './fake-timing.ts';
import { chat, never } from './provider-server.ts';

const tools = ['get_weather', 'get_time'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}));

let provider: LLMock;
let backend: ChatBackend;

beforeAll(async () => {
  provider = new LLMock({ port: 0, chunkSize: 5 });
  provider.onMessage('hello', { content: 'Hello from an OpenAI-compatible endpoint: äöü 😀' });
  provider.on(
    { userMessage: 'weather', hasToolResult: false },
    {
      toolCalls: [
        { id: 'call_w', name: 'get_weather', arguments: '{"city":"Zürich"}' },
        { id: 'call_t', name: 'get_time', arguments: '{"city":"Zürich"}' },
      ],
    },
  );
  provider.on({ userMessage: 'weather', hasToolResult: true }, { content: 'Sunny at noon.' });
  await provider.start();
  const config = await loadHostConfig({
    env: { OPENAI_BASE_URL: `${provider.url}/v1`, OPENAI_API_KEY: 'mock-key', OPENAI_MODEL: 'gpt-4o' },
  });
  const compiled = config.backends.get(config.defaultBackend);
  if (compiled === undefined) return expect.fail('no backend');
  backend = await openBackend(compiled, { proxy: config.proxy, timing: new FakeTiming() });
});

afterAll(async () => {
  await backend.close();
  await provider.stop();
});

function firstChoice(body: JsonObject): unknown {
  return Array.isArray(body.choices) ? body.choices[0] : undefined;
}

it.each([false, true])(
  'an OpenAI-compatible endpoint answers in text, stream: %s [chat.backend.openai]',
  async (stream) => {
    const body = await backend.complete(chat('hello there', { stream, model: 'gpt-4o' }), never);
    expect(body).toMatchObject({ object: 'chat.completion', model: 'gpt-4o' });
    expect(firstChoice(body)).toMatchObject({
      index: 0,
      finish_reason: 'stop',
      message: { role: 'assistant', content: 'Hello from an OpenAI-compatible endpoint: äöü 😀' },
    });
    expect(body.usage).toMatchObject({ total_tokens: expect.any(Number) });
  },
);

it.each([false, true])('parallel tool calls and their results, stream: %s [chat.backend.openai]', async (stream) => {
  const messages: JsonObject[] = [{ role: 'user', content: 'weather and time?' }];
  const first = firstChoice(await backend.complete({ model: 'gpt-4o', messages, tools, stream }, never));
  expect(first).toMatchObject({
    finish_reason: 'tool_calls',
    message: {
      role: 'assistant',
      tool_calls: [
        { id: 'call_w', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Zürich"}' } },
        { id: 'call_t', type: 'function', function: { name: 'get_time', arguments: '{"city":"Zürich"}' } },
      ],
    },
  });
  const { message } = first as { message: JsonObject };
  messages.push(
    message,
    { role: 'tool', tool_call_id: 'call_w', content: 'sunny' },
    { role: 'tool', tool_call_id: 'call_t', content: '12:00' },
  );
  const second = firstChoice(await backend.complete({ model: 'gpt-4o', messages, tools, stream }, never));
  expect(second).toMatchObject({ finish_reason: 'stop', message: { content: 'Sunny at noon.' } });
});

it('the same answer, streamed or in one piece, has the same message [chat.backend.stream]', async () => {
  const request = { model: 'gpt-4o', messages: [{ role: 'user', content: 'weather' }], tools };
  const whole = firstChoice(await backend.complete(request, never)) as { message: JsonObject };
  const streamed = firstChoice(await backend.complete({ ...request, stream: true }, never)) as { message: JsonObject };
  expect(streamed.message.tool_calls).toEqual(whole.message.tool_calls);
  expect(streamed.message.content).toEqual(whole.message.content);
});

it('an injected failure is retried and then answered [chat.backend.retry]', async () => {
  provider.nextRequestError(503, { message: 'overloaded' });
  const before = provider.getRequests().length;
  const body = await backend.complete(chat('hello', { model: 'gpt-4o' }), never);
  expect(firstChoice(body)).toMatchObject({ finish_reason: 'stop' });
  expect(provider.getRequests().length - before).toBe(2);
});

it('an injected refusal keeps its message [chat.backend.errors]', async () => {
  provider.nextRequestError(401, { message: 'no such key' });
  await expect(backend.complete(chat('hello', { model: 'gpt-4o' }), never)).rejects.toMatchObject({
    code: 'unauthorized',
    status: 401,
    message: expect.stringContaining('no such key'),
  });
});
