import { describe, expect, it } from 'vitest';
import { BackendError, type ChatBackend, type ChatRequest } from '../../../src/agent/chat/backend.ts';
import { ChatHistory } from '../../../src/agent/chat/history.ts';
import { AUTO_TOOL_CALL, runSend, type SendPorts } from '../../../src/agent/chat/tool-loop.ts';
import type { JsonObject, JsonValue } from '../../../src/base/json.ts';

const never = new AbortController().signal;

/** Answers with given bodies, one after the other. */
class FakeBackend implements ChatBackend {
  readonly name = 'fake';
  readonly model = undefined;
  readonly requests: ChatRequest[] = [];
  readonly #bodies: (JsonObject | Error)[];

  constructor(...bodies: (JsonObject | Error)[]) {
    this.#bodies = bodies;
  }

  async complete(request: ChatRequest): Promise<JsonObject> {
    this.requests.push(structuredClone(request));
    const body = this.#bodies.shift() ?? saying({ content: 'done' });
    if (body instanceof Error) throw body;
    return body;
  }

  async close(): Promise<void> {}
}

const saying = (message: JsonObject): JsonObject => ({ choices: [{ message }] });
const calling = (...calls: JsonValue[]): JsonObject => saying({ role: 'assistant', content: null, tool_calls: calls });

interface Tried {
  readonly body: JsonObject;
  readonly messages: readonly JsonObject[];
  readonly unexpected: readonly unknown[];
  readonly toolCalls: readonly [name: string, args: string][];
}

/** One send of a session that has the tool `sum`. */
async function trySend(backend: FakeBackend, signal = never, history = new ChatHistory()): Promise<Tried> {
  const unexpected: unknown[] = [];
  const toolCalls: [string, string][] = [];
  const ports: SendPorts = {
    backend: async () => backend,
    tools: null,
    events: null,
    session: 'chat-1',
    timeLeftMs: () => 60_000,
    observer: {
      toolStarted: () => {},
      toolFinished: () => {},
      limitReached: () => {},
      modelAnswered: () => {},
      failed: (error) => void unexpected.push(error),
    },
    callGuestTool: async ({ name }, args) => {
      toolCalls.push([name, args]);
      return { rc: 0, content: '3' };
    },
  };
  history.apply({ messages: [['user', 'hi']], tools: [[1, '{"name":"sum"}']], toolResults: [], params: [] });
  const { body } = await runSend(history, AUTO_TOOL_CALL, ports, signal);
  return { body: JSON.parse(Buffer.from(body).toString()), messages: history.messages, unexpected, toolCalls };
}

/** What every provider asks of a history: the answers to the calls of a message follow it, each once. */
function unansweredIn(messages: readonly JsonObject[]): string[] {
  const open: string[] = [];
  for (const { role, tool_calls, tool_call_id } of messages) {
    if (role === 'tool') expect(open.shift()).toBe(tool_call_id);
    else expect(open).toEqual([]);
    for (const call of (tool_calls ?? []) as JsonObject[]) open.push(call.id as string);
  }
  return open;
}

it('how long a provider asked to be left alone is in the error [chat.backend.retry_after]', async () => {
  const details = { retryable: true, status: 429, retryAfterMs: 90_000 };
  const { body } = await trySend(new FakeBackend(new BackendError('rate_limited', 'slow down', details)));
  expect(body).toEqual({
    error: { code: 'rate_limited', message: 'slow down', retryable: true, status: 429, retry_after_ms: 90_000 },
  });
});

describe('calls that a provider wrote in its own way', () => {
  const call = (id: JsonValue | undefined, args: JsonValue = '{}') => ({
    ...(id === undefined ? {} : { id }),
    type: 'function',
    function: { name: 'sum', arguments: args },
  });

  it.each([
    ['without ids', [call(undefined), call(undefined)]],
    ['with empty ids', [call(''), call('')]],
    ['with one id for all', [call('x'), call('x'), call('x')]],
    ['with ids that look like ours', [call('call_1'), call('call_1'), call('call_1_call_1'), call(undefined)]],
    ['with numbers for ids', [call(7), call(7)]],
  ])('%s get ids of their own, the same in the call and in its answer', async (_how, calls) => {
    const { messages, toolCalls } = await trySend(new FakeBackend(calling(...calls)));
    expect(unansweredIn(messages)).toEqual([]);
    const ids = messages.filter(({ role }) => role === 'tool').map(({ tool_call_id }) => tool_call_id);
    expect(ids).toHaveLength(calls.length);
    expect(new Set(ids).size).toBe(calls.length);
    expect(ids).not.toContain('');
    expect(toolCalls).toHaveLength(calls.length);
  });

  it('with arguments that are an object reach the tool as JSON', async () => {
    const { toolCalls, messages } = await trySend(new FakeBackend(calling(call('a', { b: 1, a: [2] }))));
    expect(toolCalls).toEqual([['sum', '{"a":[2],"b":1}']]);
    expect(messages[1]?.tool_calls).toEqual([
      { id: 'a', type: 'function', function: { name: 'sum', arguments: '{"a":[2],"b":1}' } },
    ]);
  });

  it.each([[null], ['sum'], [{}], [{ id: 'a' }], [{ id: 'a', function: { name: 3 } }], [{ id: 'a', function: 'sum' }]])(
    'as %j are answered as a tool that nobody knows',
    async (odd) => {
      const { messages, body } = await trySend(new FakeBackend(calling(odd)));
      expect(unansweredIn(messages)).toEqual([]);
      expect(JSON.parse(messages[2]?.content as string)).toMatchObject({ error: { code: 'unknown_tool' } });
      expect(body).toMatchObject({ choices: [{ message: { content: 'done' } }] });
    },
  );

  it('keep what the provider needs to have back, and lose what it does not take [chat.history]', async () => {
    const signed = { ...call('a'), extra_content: { google: { thought_signature: 'abc' } } };
    const backend = new FakeBackend(
      saying({ role: 'assistant', content: 'hm', reasoning_content: 'long', annotations: [], tool_calls: [signed] }),
    );
    await trySend(backend);
    expect(backend.requests[1]?.messages[1]).toEqual({ role: 'assistant', content: 'hm', tool_calls: [signed] });
  });
});

describe('answers that cannot be used', () => {
  it.each([[{}], [{ choices: [] }], [{ choices: [{}] }], [{ choices: [{ message: 'hi' }] }], [{ choices: 'none' }]])(
    '%j is an error body [chat.errors]',
    async (answer) => {
      const { body, messages } = await trySend(new FakeBackend(answer));
      expect(body).toEqual({
        error: { code: 'bad_response', message: 'the model’s answer has no choices[0].message', retryable: false },
      });
      expect(unansweredIn(messages)).toEqual([]);
    },
  );

  it('a body that is nested too deeply to be written is an error body [chat.errors]', async () => {
    let deep: JsonValue = 'bottom';
    for (let depth = 0; depth < 200_000; depth++) deep = [deep];
    const { body } = await trySend(new FakeBackend({ ...saying({ content: 'hi' }), deep }));
    expect(body).toMatchObject({ error: { code: 'bad_response', retryable: false } });
  });
});

describe('a backend that fails', () => {
  it('gives its code, message, status and whether to try again [chat.errors]', async () => {
    const refused = new BackendError('rate_limited', 'slow down', { retryable: true, status: 429 });
    const { body, unexpected } = await trySend(new FakeBackend(refused));
    expect(body).toEqual({ error: { code: 'rate_limited', message: 'slow down', retryable: true, status: 429 } });
    expect(unexpected).toEqual([]);
  });

  it('by an error of our own tells the guest nothing of it [chat.errors]', async () => {
    const { body, unexpected } = await trySend(new FakeBackend(new TypeError('secret path /etc/keys')));
    expect(body).toEqual({
      error: { code: 'internal_error', message: 'the host failed to run this send', retryable: false },
    });
    expect(unexpected).toHaveLength(1);
  });

  it('in the middle of a turn leaves every call answered [chat.errors]', async () => {
    const history = new ChatHistory();
    const call = { id: 'a', type: 'function', function: { name: 'sum', arguments: '{}' } };
    const broken = new BackendError('provider_error', 'gone', { retryable: true });
    await trySend(new FakeBackend(calling(call), broken), never, history);
    expect(unansweredIn(history.messages)).toEqual([]);
    const { body } = await trySend(new FakeBackend(), never, history);
    expect(body).toMatchObject({ choices: [{ message: { content: 'done' } }] });
    expect(unansweredIn(history.messages)).toEqual([]);
  });

  it('because the send was canceled says so [chat.errors]', async () => {
    const controller = new AbortController();
    controller.abort(new DOMException('cancelled by the guest', 'AbortError'));
    const { body } = await trySend(new FakeBackend(new Error('aborted')), controller.signal);
    expect(body).toEqual({ error: { code: 'cancelled', message: 'the send was cancelled', retryable: false } });
  });
});
