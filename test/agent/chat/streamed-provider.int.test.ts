import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { OpenAiBackend } from '../../../src/agent/chat/backends/openai.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { NO_PROXY } from '../../../src/config/host/proxy.ts';
import { knownSecrets } from '../../../src/server/secrets/redactor.ts';
import {
  AUTO_TOOL_CALL,
  newSession,
  readEvents,
  readToEnd,
  recv,
  recvJson,
  STREAM,
  send,
  setArena,
  textOf,
  writeTool,
} from '../../support/chat-calls.ts';
import type { TestGuest } from '../../support/test-guest.ts';
import { until } from '../../support/until.ts';
import { useGuests } from '../../support/use-guest.ts';
import {
  compiledBackend,
  completionBody,
  deltaChunk,
  event,
  type Handler,
  ProviderServer,
  sendJson,
  startStream,
} from './backends/provider-server.ts';

const DONE = 'data: [DONE]\n\n';
const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
const openGuest = useGuests();
let provider: ProviderServer;
let answer: Handler = () => {};

beforeAll(async () => {
  provider = await ProviderServer.start((...given) => answer(...given));
});
afterAll(() => provider.stop());
afterEach(() => {
  provider.requests.length = 0;
});

function openStreaming(handler: Handler, changes: Parameters<typeof compiledBackend>[1] = {}): Promise<TestGuest> {
  answer = handler;
  return openGuest({ backend: new OpenAiBackend(compiledBackend(provider.baseUrl, changes), { proxy: NO_PROXY }) });
}

/** Sends the parts as separate portions, each after the one before has left the process. */
async function stream(response: ServerResponse, ...parts: string[]): Promise<void> {
  startStream(response);
  for (const part of parts) await new Promise((sent) => response.write(part, sent));
}

const streams =
  (...parts: string[]): Handler =>
  async (response) => {
    await stream(response, ...parts);
    response.end();
  };

const text = (content: string) => event(deltaChunk({ content }));

async function eventsOf(guest: TestGuest): Promise<{ events: JsonObject[]; body: JsonObject }> {
  const response = await send(guest, await newSession(guest), STREAM);
  const events = await readToEnd(guest, response);
  return { events, body: await recvJson(guest, response) };
}

describe('a streamed send to a provider', () => {
  it('asks for a stream with its usage, and tells deltas, reasoning and usage [stream.provider]', async () => {
    const guest = await openStreaming(
      streams(
        event(deltaChunk({ role: 'assistant', content: '' })),
        event(deltaChunk({ reasoning_content: 'hm' })),
        event(deltaChunk({ reasoning: ', yes' })),
        text('Grü'),
        text('ße 😀'),
        event(deltaChunk({}, 'length')),
        event({ choices: [], usage }),
        DONE,
      ),
    );
    const { events, body } = await eventsOf(guest);
    expect(provider.requests[0]?.body).toMatchObject({ stream: true, stream_options: { include_usage: true } });
    expect(events).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'reasoning', text: ', yes' },
      { type: 'text', text: 'Grü' },
      { type: 'text', text: 'ße 😀' },
      { type: 'usage', usage },
      { type: 'end', finish_reason: 'length' },
    ]);
    expect(body).toMatchObject({ usage, choices: [{ message: { content: 'Grüße 😀', reasoning_content: 'hm' } }] });
  });

  it('gives events while the answer comes, and the body of the same answer in one piece [stream.body]', async () => {
    const { promise: goOn, resolve } = Promise.withResolvers<void>();
    const guest = await openStreaming(async (response, { body }) => {
      if (body.stream !== true) return sendJson(response, 200, { created: 7, ...completionBody('one two') });
      await stream(response, text('one'));
      await goOn;
      response.end(`${text(' two')}${event(deltaChunk({}, 'stop'))}${DONE}`);
    });
    const whole = await recv(guest, await send(guest, await newSession(guest)));
    const response = await send(guest, await newSession(guest), STREAM);
    expect(await readEvents(guest, response)).toEqual([{ type: 'text', text: 'one' }]);
    resolve();
    expect(textOf(await readToEnd(guest, response))).toBe(' two');
    expect(await recv(guest, response)).toBe(whole);
  });

  it('tells an answer in one piece as one, cut into lines that fit a buffer [stream.provider]', async () => {
    const long = 'ä😀'.repeat(3000);
    const guest = await openStreaming((response) => sendJson(response, 200, completionBody(long)));
    const { events } = await eventsOf(guest);
    expect(textOf(events)).toBe(long);
    const pieces = events.filter(({ type }) => type === 'text').map((piece) => String(piece.text));
    expect(pieces.length).toBeGreaterThan(2);
    expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
    expect(events.at(-1)).toEqual({ type: 'end', finish_reason: 'stop' });
  });

  it('runs parallel tool calls whose arguments come in pieces [stream.tools]', async () => {
    const calls = (...parts: JsonObject[]) => event(deltaChunk({ tool_calls: parts }));
    const guest = await openStreaming((response, _seen, count) => {
      const parts =
        count === 1
          ? [
              text('Both.'),
              calls({ index: 0, id: 'x', function: { name: 'sum', arguments: '{"a"' } }),
              calls({ index: 1, id: 'y', function: { name: 'sum', arguments: '{"b":' } }),
              calls({ index: 1, function: { arguments: '2}' } }, { index: 0, function: { arguments: ':1}' } }),
              event(deltaChunk({}, 'tool_calls')),
            ]
          : [text('Three.'), event(deltaChunk({}, 'stop'))];
      return streams(...parts, DONE)(response, _seen, count);
    });
    const seen: string[] = [];
    const session = await newSession(guest);
    await setArena(guest, session, 1024);
    const index = guest.tool((call) => {
      seen.push(call.args);
      return call.answer('ok');
    });
    await writeTool(guest, session, 'sum', index);
    const events = await readToEnd(guest, await send(guest, session, AUTO_TOOL_CALL | STREAM));
    expect(seen).toEqual(['{"a":1}', '{"b":2}']);
    expect(events.map(({ type, id }) => [type, id].filter(Boolean).join(' '))).toEqual([
      'text',
      'tool_start x',
      'tool_start y',
      'tool_result x',
      'tool_result y',
      'text',
      'end',
    ]);
  });

  it('takes a key out of the deltas, whole or in pieces, and holds nothing else back [stream.secrets]', async () => {
    knownSecrets.add('sk-very-secret-value');
    const guest = await openStreaming(
      streams(
        text('a sk-ve'),
        text('ry-sec'),
        text('ret-value, s'),
        text('k-very nice s'),
        event(deltaChunk({}, 'stop')),
      ),
    );
    const { events, body } = await eventsOf(guest);
    expect(textOf(events)).toBe('a [redacted], sk-very nice s');
    expect(JSON.stringify(body)).toContain('a [redacted], sk-very nice s');
  });

  it.each([
    ['is cut', 'stream_broken', streams(text('half'))],
    [
      'loses its connection',
      'stream_broken',
      async (response: ServerResponse) => {
        await stream(response, text('half'));
        response.socket?.destroy();
      },
    ],
    ['has a chunk that is no JSON', 'bad_response', streams(text('half'), 'data: {"choices":\n\n', DONE)],
    [
      'has an error event',
      'provider_error',
      streams(text('half'), event({ error: { message: 'overloaded', code: 529 } }), DONE),
    ],
    ['is too large', 'response_too_large', streams(text('half'), ...Array<string>(40).fill(text('x'.repeat(4000))))],
    ['falls silent', 'timeout', (response: ServerResponse) => stream(response, text('half'))],
  ])(
    'that %s ends with %s as event and body, and is not asked for again [stream.errors]',
    async (how, code, handler) => {
      const limits = how === 'falls silent' ? { timeoutMs: 300 } : { maxResponseBytes: 64 * 1024 };
      const guest = await openStreaming(handler as Handler, limits);
      const { events, body } = await eventsOf(guest);
      expect(events[0]).toEqual({ type: 'text', text: 'half' });
      expect(events.slice(-2)).toMatchObject([
        { type: 'error', error: { code } },
        { type: 'end', finish_reason: 'error' },
      ]);
      expect(body).toEqual({ error: events.at(-2)?.error });
      expect(provider.requests).toHaveLength(1);
    },
  );

  it('ends the request at once when it is cancelled [stream.cancel]', async () => {
    let closed = false;
    const guest = await openStreaming(async (response) => {
      response.on('close', () => {
        closed = true;
      });
      await stream(response, text('half'));
    });
    const response = await send(guest, await newSession(guest), STREAM);
    await readEvents(guest, response);
    expect(await guest.call('spear_fd_cancel', response)).toBe(0);
    await until(() => closed, 'the connection to be closed');
  });
});
