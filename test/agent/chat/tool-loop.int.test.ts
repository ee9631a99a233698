import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../src/agent/chat/backends/script-schema.ts';
import {
  AUTO_TOOL_CALL,
  answer,
  newSession,
  recv,
  say,
  send,
  setArena,
  setParam,
  writeTool,
} from '../../support/chat-calls.ts';
import type { TestGuest, ToolHandler } from '../../support/test-guest.ts';
import { useGuests } from '../../support/use-guest.ts';

const openGuest = useGuests();

const toolCall = (id: string, name: string, args: Record<string, string> = {}) => ({ id, name, arguments: args });

/** The model calls these tools, then says "done". */
const callsThenDone = (...calls: ReturnType<typeof toolCall>[]): readonly ScriptTurn[] => [
  { when: { role: 'user' }, reply: { tool_calls: calls } },
  { reply: { content: 'done' }, repeat: true },
];

/** The model never stops calling `sum`. */
const callsForever: readonly ScriptTurn[] = [{ reply: { tool_calls: [toolCall('call_1', 'sum')] }, repeat: true }];

async function sessionWithTools(guest: TestGuest, tools: Record<string, ToolHandler>): Promise<number> {
  const fd = await newSession(guest);
  await setArena(guest, fd, 4096);
  for (const [name, handler] of Object.entries(tools))
    expect(await writeTool(guest, fd, name, guest.tool(handler))).toBe(0);
  return fd;
}

const sum: ToolHandler = (call) => call.answer('3');

describe('an answer without tools', () => {
  it('is the provider’s body in canonical form with _spear added [chat.body]', async () => {
    const guest = await openGuest();
    expect(await recv(guest, await send(guest, await newSession(guest)))).toBe(
      '{"_spear":{"backend":"scripted","model":"scripted"},' +
        '"choices":[{"finish_reason":"stop","index":0,"message":{"content":"hello","role":"assistant"}}],' +
        '"created":0,"id":"scripted-1","model":"scripted","object":"chat.completion",' +
        '"usage":{"completion_tokens":0,"prompt_tokens":0,"total_tokens":0}}',
    );
  });

  it('names the model that was asked for [chat.body]', async () => {
    const guest = await openGuest();
    const fd = await newSession(guest);
    await setParam(guest, fd, 'model', 'large');
    expect(await recv(guest, await send(guest, fd))).toContain('"_spear":{"backend":"scripted","model":"large"}');
    expect(guest.backend.requests[0]?.model).toBe('large');
  });

  it('becomes part of the history [chat.history]', async () => {
    const guest = await openGuest();
    const fd = await newSession(guest, 'one');
    await send(guest, fd);
    await say(guest, fd, 'user', 'two');
    await send(guest, fd);
    expect(guest.backend.requests[1]?.messages).toEqual([
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'hello' },
      { role: 'user', content: 'two' },
    ]);
  });
});

describe('the loop', () => {
  it('gives every call one role=tool message, in the model’s order, failed ones too [loop.order]', async () => {
    const guest = await openGuest({
      turns: callsThenDone(
        toolCall('c', 'slow'),
        toolCall('a', 'nowhere'),
        toolCall('d', 'fails'),
        toolCall('b', 'slow'),
      ),
    });
    const order: string[] = [];
    const fd = await sessionWithTools(guest, {
      slow: async (call) => {
        order.push('slow begins');
        await guest.enter('sleep_ms', 5);
        order.push('slow ends');
        return call.answer('slow answer');
      },
      fails: () => {
        order.push('fails');
        return -7;
      },
    });
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    const messages = guest.backend.requests[1]?.messages ?? [];
    expect(messages[1]).toMatchObject({ role: 'assistant', content: null });
    expect(messages[1]?.tool_calls).toMatchObject([{ id: 'c' }, { id: 'a' }, { id: 'd' }, { id: 'b' }]);
    expect(messages.slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'c', content: 'slow answer' },
      {
        role: 'tool',
        tool_call_id: 'a',
        content: '{"error":{"code":"unknown_tool","message":"there is no tool named \\"nowhere\\""}}',
      },
      { role: 'tool', tool_call_id: 'd', content: '{"error":{"code":"tool_exec_failed","message":"tool rc: -7"}}' },
      { role: 'tool', tool_call_id: 'b', content: 'slow answer' },
    ]);
    expect(order).toEqual(['slow begins', 'slow ends', 'fails', 'slow begins', 'slow ends']);
  });

  it('gives a tool its arguments as the model wrote them [loop.dispatch]', async () => {
    const guest = await openGuest({ turns: callsThenDone(toolCall('a', 'sum', { b: 'grüße 🚀', a: 'x' })) });
    const seen: string[] = [];
    const fd = await sessionWithTools(guest, {
      sum(call) {
        seen.push(call.args);
        return call.answer('');
      },
    });
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(seen).toEqual(['{"a":"x","b":"grüße 🚀"}']);
    expect(guest.backend.requests[1]?.messages.at(-1)).toEqual({ role: 'tool', tool_call_id: 'a', content: '' });
  });

  it('looks for a guest tool first, and refuses MCP names that were not injected [loop.dispatch]', async () => {
    const guest = await openGuest({
      turns: callsThenDone(
        toolCall('a', 'mcp__ZnM__bHM'),
        toolCall('b', 'mcp__ZnM__cmVhZF9maWxl'),
        toolCall('c', 'mcp.fs.read_file'),
      ),
    });
    const fd = await sessionWithTools(guest, { mcp__ZnM__bHM: (call) => call.answer('the guest’s own') });
    await send(guest, fd, AUTO_TOOL_CALL);
    const [own, ...refused] = (guest.backend.requests[1]?.messages ?? [])
      .slice(2)
      .map(({ content }) => content as string);
    expect(own).toBe('the guest’s own');
    expect(refused).toHaveLength(2);
    for (const content of refused) expect(JSON.parse(content)).toMatchObject({ error: { code: 'mcp_policy_denied' } });
  });

  it('leaves the calls to the guest without a flag, and out of the history [loop.flags]', async () => {
    const guest = await openGuest({ turns: callsThenDone(toolCall('a', 'sum')) });
    let called = false;
    const fd = await sessionWithTools(guest, {
      sum() {
        called = true;
        return 0;
      },
    });
    expect(await recv(guest, await send(guest, fd, 0))).toContain('"tool_calls":[{');
    await say(guest, fd, 'user', 'again');
    await send(guest, fd, 0).catch(() => undefined);
    expect(called).toBe(false);
    expect(guest.backend.requests[1]?.messages.map(({ role }) => role)).toEqual(['user', 'user']);
  });
});

describe('the limits of a send', () => {
  const limitBody = (what: string) =>
    `{"error":{"code":"tool_call_limit","message":"exceeded ${what}","retryable":false}}`;

  it('stop after max_iterations model calls, 8 by default [loop.limits]', async () => {
    const guest = await openGuest({ turns: callsForever });
    const fd = await sessionWithTools(guest, { sum });
    expect(await recv(guest, await send(guest, fd, AUTO_TOOL_CALL))).toBe(limitBody('max_iterations'));
    expect(guest.backend.requests).toHaveLength(8);
  });

  it('follow max_iterations, at most 128 [loop.limits]', async () => {
    const guest = await openGuest({ turns: callsForever });
    const fd = await sessionWithTools(guest, { sum });
    await setParam(guest, fd, 'max_iterations', 2);
    expect(await recv(guest, await send(guest, fd, AUTO_TOOL_CALL))).toBe(limitBody('max_iterations'));
    expect(guest.backend.requests).toHaveLength(2);

    await setParam(guest, fd, 'max_iterations', 1_000_000);
    await setParam(guest, fd, 'max_tool_calls', 10_000);
    expect(await recv(guest, await send(guest, fd, AUTO_TOOL_CALL))).toBe(limitBody('max_iterations'));
    expect(guest.backend.requests).toHaveLength(2 + 128);
  });

  it.each(['max_total_tool_calls', 'max_tool_calls'])('stop before %s would be exceeded [loop.limits]', async (key) => {
    const guest = await openGuest({ turns: callsForever });
    let called = 0;
    const fd = await sessionWithTools(guest, {
      sum(call) {
        called++;
        return call.answer('3');
      },
    });
    await setParam(guest, fd, key, 3);
    expect(await recv(guest, await send(guest, fd, AUTO_TOOL_CALL))).toBe(limitBody('max_total_tool_calls'));
    expect(called).toBe(3);
    expect(guest.backend.requests).toHaveLength(4);
  });

  it('stop at 32 tool calls by default [loop.limits]', async () => {
    const many = Array.from({ length: 33 }, (_, index) => toolCall(`call_${index}`, 'sum'));
    const guest = await openGuest({ turns: callsThenDone(...many) });
    const fd = await sessionWithTools(guest, { sum });
    expect(await recv(guest, await send(guest, fd, AUTO_TOOL_CALL))).toBe(limitBody('max_total_tool_calls'));
  });

  it('leave a history that a provider accepts, and count anew in the next send [loop.limits]', async () => {
    const guest = await openGuest({ turns: callsForever });
    const fd = await sessionWithTools(guest, { sum });
    await setParam(guest, fd, 'max_tool_calls', 1);
    await send(guest, fd, AUTO_TOOL_CALL);
    await say(guest, fd, 'user', 'again');
    await send(guest, fd, AUTO_TOOL_CALL);
    const messages = guest.backend.requests.at(-1)?.messages ?? [];
    const roles = messages.map(({ role }) => role);
    expect(roles).toEqual(['user', 'assistant', 'tool', 'assistant', 'tool', 'user', 'assistant', 'tool']);
    expect(messages[4]?.content).toBe('{"error":{"code":"tool_call_limit","message":"exceeded max_total_tool_calls"}}');
    expect(messages[7]?.content).toBe('3');
  });
});
