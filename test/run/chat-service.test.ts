import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { ChatService } from '../../src/run/chat-service.ts';
import { type HostReply, PortViolation, type SessionDelta } from '../../src/runtime/port/port.ts';
import { type ObservedBackend, scripted } from '../support/chat-host.ts';
import { HELLO } from '../support/test-guest.ts';
import { until } from '../support/until.ts';

const nothing: SessionDelta = { messages: [], tools: [], toolResults: [], params: [] };
const says = (content: string): SessionDelta => ({ ...nothing, messages: [['user', content]] });

interface Served {
  readonly service: ChatService;
  readonly backend: ObservedBackend;
  readonly replies: [call: number, reply: HostReply][];
}

async function serve(turns = HELLO): Promise<Served> {
  const backend = await scripted(turns);
  const replies: Served['replies'] = [];
  const service = new ChatService({
    backend: async () => backend,
    tools: null,
    observe: () => ({
      toolStarted: () => {},
      toolFinished: () => {},
      limitReached: () => {},
      modelAnswered: () => {},
      failed: (error) => {
        throw error;
      },
    }),
    onModelEvent: null,
    reply: (call, reply) => replies.push([call, reply]),
  });
  return { service, backend, replies };
}

/** What a guest thread that is not ours any more could send. */
const untrusted = (delta: unknown) => delta as SessionDelta;

describe('the chat of one guest', () => {
  it('answers with a body as text', async () => {
    const { service, replies } = await serve();
    service.send(1, 1000, 0, says('hi'));
    await until(() => replies.length === 1, 'the reply');
    const [call, reply] = replies[0] as Served['replies'][number];
    expect(call).toBe(1);
    expect(reply[0]).toBe('response');
    const parsed = JSON.parse(reply[1] as string) as JsonObject;
    expect(parsed._spear).toEqual({ backend: 'scripted', model: 'scripted' });
    await service.close();
  });

  it('keeps the sends of one session in their order, and those of others apart', async () => {
    const { service, backend, replies } = await serve();
    service.send(1, 1000, 0, says('one'));
    service.send(2, 1000, 0, says('two'));
    service.send(3, 1001, 0, says('other'));
    await until(() => replies.length === 3, 'the replies');
    const contents = backend.requests.map(({ messages }) => messages.map(({ content }) => content).join());
    expect(contents.sort()).toEqual(['one', 'one,hello,two', 'other']);
    await service.close();
  });

  it('forgets a session that was closed', async () => {
    const { service, backend, replies } = await serve();
    service.send(1, 1000, 0, says('one'));
    await until(() => replies.length === 1, 'the reply');
    service.closeSession(2, 1000);
    service.send(3, 1000, 0, says('two'));
    await until(() => replies.length === 3, 'both replies');
    expect(backend.requests[1]?.messages).toHaveLength(1);
    await service.close();
  });

  it('tells the backend which session asks, and how much of timeout_ms is left [chat.backend.retry_after]', async () => {
    const { service, backend, replies } = await serve();
    service.send(1, 1000, 0, { ...says('hi'), params: [['timeout_ms', 600_000]] });
    await until(() => replies.length === 1, 'the reply');
    const [by] = backend.askedBy;
    expect(by?.session).toBe('chat-1000');
    expect(by?.timeLeftMs).toBeLessThanOrEqual(600_000);
    expect(by?.timeLeftMs).toBeGreaterThan(0);
    await service.close();
  });

  it('adds up what all sends cost', async () => {
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    const { service, replies } = await serve([{ reply: { content: 'x', usage }, repeat: true }]);
    for (const call of [1, 2, 3]) service.send(call, 1000, 0, says('hi'));
    await until(() => replies.length === 3, 'the replies');
    expect(service.totals).toEqual({
      sends: 3,
      iterations: 3,
      toolCalls: 0,
      usage: { prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 },
    });
    await service.close();
  });

  it('counts each round of a handed-back turn once', async () => {
    const HAND_BACK = 4;
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    const asks = (id: string) => ({ reply: { tool_calls: [{ id, name: 'sum', arguments: {} }], usage } });
    const { service, replies } = await serve([asks('a'), asks('b'), { reply: { content: 'done', usage } }]);
    const tools: SessionDelta['tools'] = [[-1, '{"name":"sum"}']];
    const rounds: SessionDelta[] = [
      { ...says('hi'), tools },
      { ...nothing, toolResults: [['a', '1']] },
      { ...nothing, toolResults: [['b', '2']] },
    ];
    for (const [index, delta] of rounds.entries()) {
      service.send(index + 1, 1000, HAND_BACK, delta);
      await until(() => replies.length === index + 1, 'the reply');
    }
    expect(service.totals).toEqual({
      sends: 3,
      iterations: 3,
      toolCalls: 2,
      usage: { prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 },
    });
    await service.close();
  });
});

describe('closing', () => {
  it('ends every send and waits until its request has ended, those of closed sessions too', async () => {
    const { service, backend } = await serve();
    backend.hold();
    service.send(1, 1000, 0, says('hi'));
    service.send(2, 1001, 0, says('hi'));
    await until(() => backend.requests.length === 2, 'the requests');
    service.closeSession(3, 1001);
    await service.close();
    expect(backend.aborted).toBe(2);
  });

  it('ends a send that waits for a callback of the guest', async () => {
    const { service, replies } = await serve([
      { reply: { tool_calls: [{ id: 'a', name: 'sum', arguments: {} }] }, repeat: true },
    ]);
    service.send(1, 1000, 2, { ...says('hi'), tools: [[1, '{"name":"sum"}']] });
    await until(() => replies.length === 1, 'the callback');
    expect(replies[0]?.[1][0]).toBe('tool');
    await service.close();
  });

  it('leaves no timer of a send behind', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
    const before = timers();
    const { service, replies } = await serve();
    for (let call = 1; call <= 20; call++) service.send(call, 1000 + call, 0, says('hi'));
    await until(() => replies.length === 20, 'the replies');
    await service.close();
    await until(() => timers() <= before, 'the timers to be gone');
  });
});

describe('a guest thread that breaks the rules', () => {
  it('that uses a call id twice is a violation', async () => {
    const { service, backend } = await serve();
    backend.hold();
    service.send(1, 1000, 0, says('hi'));
    expect(() => service.send(1, 1000, 0, says('hi'))).toThrow(PortViolation);
    await service.close();
  });

  it.each([
    ['tools that are no JSON', { ...says('hi'), tools: [[1, '{"name":']] }],
    ['tools that are no objects', { ...says('hi'), tools: [[1, '[]']] }],
    ['tools without a name', { ...says('hi'), tools: [[1, '{"function":{}}']] }],
    [
      'params of the wrong type',
      {
        ...says('hi'),
        params: [
          ['timeout_ms', 'soon'],
          ['model', 7],
        ],
      },
    ],
    ['params of the host', { ...says('hi'), params: [['messages', []]] }],
    ['results without a request', { ...says('hi'), toolResults: [['a', 'b']] }],
  ])('by sending %s does not stop the host', async (_what, delta) => {
    const { service, backend, replies } = await serve();
    service.send(1, 1000, 2, untrusted(delta));
    await until(() => replies.length === 1, 'the reply');
    expect(backend.requests[0]?.messages).toEqual([{ role: 'user', content: 'hi' }]);
    expect(backend.requests[0]).not.toHaveProperty('tools');
    await service.close();
  });

  it('by answering what was not asked, or for a send that is gone, is not heard', async () => {
    const { service } = await serve();
    service.toolResult(1, 1, 0, '');
    service.cancel(7);
    service.closeSession(8, 1234);
    await service.close();
  });
});
