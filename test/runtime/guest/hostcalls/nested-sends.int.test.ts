import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../../src/agent/chat/backends/script-schema.ts';
import {
  AUTO_TOOL_CALL,
  answer,
  epollWait,
  newEpoll,
  newSession,
  recv,
  say,
  send,
  setArena,
  setNonblocking,
  setParam,
  writeTool,
} from '../../../support/chat-calls.ts';
import type { TestGuest, ToolHandler } from '../../../support/test-guest.ts';
import { useGuests } from '../../../support/use-guest.ts';

const EBUSY = -16;
const MAX_DEPTH = 8;
const openGuest = useGuests();

/** The tool is called for every user message of a session that has it; others get an answer at once. */
const turns: readonly ScriptTurn[] = [
  {
    when: { role: 'user', tools: ['tool'] },
    reply: { tool_calls: [{ id: 'a', name: 'tool', arguments: {} }] },
    repeat: true,
  },
  { when: { role: 'user' }, reply: { content: 'from inside' }, repeat: true },
  { reply: { content: 'done' }, repeat: true },
];

async function sessionWithTool(guest: TestGuest, index: number): Promise<number> {
  const fd = await newSession(guest);
  await setArena(guest, fd, 1024);
  await writeTool(guest, fd, 'tool', index);
  return fd;
}

const withTool = async (guest: TestGuest, handler: ToolHandler) => sessionWithTool(guest, guest.tool(handler));

describe('inside a callback', () => {
  it('another session can send, and its answer is its own [callback.nested]', async () => {
    const guest = await openGuest({ turns });
    const fd = await withTool(guest, async (call) => call.answer(String(await answer(guest, await newSession(guest)))));
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    expect(guest.backend.requests.at(-1)?.messages.at(-1)?.content).toBe('from inside');
  });

  it('the session that waits is busy, and takes what is written for its next send [callback.nested]', async () => {
    const guest = await openGuest({ turns });
    let refused = 0;
    const fd: number = await withTool(guest, async (call) => {
      expect(await say(guest, fd, 'system', 'for later')).toBe(0);
      refused = await guest.call('cchat_send', fd, 0);
      return call.answer('');
    });
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(refused).toBe(EBUSY);
    expect(JSON.stringify(guest.backend.requests)).not.toContain('for later');
    await send(guest, fd);
    expect(guest.backend.requests.at(-1)?.messages.at(-1)).toEqual({ role: 'system', content: 'for later' });
  });

  it('a non-blocking send can be waited for [callback.nested]', async () => {
    const guest = await openGuest({ turns });
    const fd = await withTool(guest, async (call) => {
      const inner = await newSession(guest);
      await setNonblocking(guest, inner);
      const response = await send(guest, inner);
      expect(await epollWait(guest, await newEpoll(guest, [response, 1]), -1)).toEqual([{ fd: response, events: 1 }]);
      return call.answer('waited');
    });
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
  });

  it('the thread can be left: sleep_ms suspends the callback alone [callback.nested]', async () => {
    const guest = await openGuest({ turns });
    const order: string[] = [];
    const fd = await withTool(guest, async (call) => {
      order.push('before');
      await guest.enter('sleep_ms', 5);
      order.push('after');
      return call.answer('');
    });
    await send(guest, fd, AUTO_TOOL_CALL);
    order.push('sent');
    expect(order).toEqual(['before', 'after', 'sent']);
  });

  it('the session itself may be closed: the send ends as canceled', async () => {
    const guest = await openGuest({ turns });
    const fd: number = await withTool(guest, async (call) => {
      expect(await guest.call('cchat_close', fd)).toBe(0);
      return call.answer('');
    });
    const response = await send(guest, fd, AUTO_TOOL_CALL);
    expect(await guest.call('cchat_recv', response, ...guest.heap.out(8).args)).toBe(-125);
    expect(await guest.call('cchat_send', fd, 0)).toBe(-9);
  });

  it('the send that waits may run out of time: its answer is that, and the callback ends in peace', async () => {
    const guest = await openGuest({ turns });
    const fd = await withTool(guest, async (call) => {
      await guest.enter('sleep_ms', 60);
      return call.answer('too late');
    });
    await setParam(guest, fd, 'timeout_ms', 20);
    expect(await recv(guest, await send(guest, fd, AUTO_TOOL_CALL))).toContain('"code":"timeout"');
    await setParam(guest, fd, 'timeout_ms', 60_000);
    await send(guest, fd);
    const messages = guest.backend.requests.at(-1)?.messages ?? [];
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(messages[2]?.content).toContain('tool rc: -125');
  });

  it('its own response may be closed or canceled: the send ends all the same', async () => {
    for (const [end, then] of [
      ['cchat_close', -9],
      ['spear_fd_cancel', -125],
    ] as const) {
      const guest = await openGuest({ turns });
      const fd: number = await withTool(guest, async (call) => {
        expect(await guest.call(end, fd + 1)).toBe(0);
        return call.answer('');
      });
      const response = await send(guest, fd, AUTO_TOOL_CALL);
      expect(response).toBe(fd + 1);
      expect(await guest.call('cchat_recv', response, ...guest.heap.out(8).args)).toBe(then);
      expect(await answer(guest, fd)).toBeDefined();
    }
  });
});

describe('callbacks on top of each other', () => {
  it(`go ${MAX_DEPTH} deep; the next send is refused and every level ends well [callback.depth]`, async () => {
    const guest = await openGuest({ turns });
    let depth = 0;
    const results: number[] = [];
    const tool = guest.tool(async (call) => {
      depth++;
      const result = await guest.call('cchat_send', await sessionWithTool(guest, tool), AUTO_TOOL_CALL);
      results.push(result);
      depth--;
      return call.answer('');
    });
    expect(await answer(guest, await sessionWithTool(guest, tool), AUTO_TOOL_CALL)).toBe('done');
    expect(results).toHaveLength(MAX_DEPTH);
    expect(results[0]).toBe(EBUSY);
    expect(results.slice(1).every((fd) => fd >= 1000)).toBe(true);
    expect(depth).toBe(0);
    expect(guest.state.depth).toBe(0);
  });

  it('give the depth back when they trap [callback.depth]', async () => {
    const guest = await openGuest({ turns });
    for (let count = 0; count < MAX_DEPTH + 2; count++) {
      expect(await answer(guest, await sessionWithTool(guest, 17), AUTO_TOOL_CALL)).toBe('done');
    }
    expect(guest.state.depth).toBe(0);
  });

  it('end in the reverse of the order in which they began [callback.depth]', async () => {
    const guest = await openGuest({ turns });
    const order: string[] = [];
    let level = 0;
    const tool = guest.tool(async (call) => {
      const own = ++level;
      order.push(`begin ${own}`);
      if (own < 4) await send(guest, await sessionWithTool(guest, tool), AUTO_TOOL_CALL);
      order.push(`end ${own}`);
      return call.answer('');
    });
    await send(guest, await sessionWithTool(guest, tool), AUTO_TOOL_CALL);
    expect(order).toEqual(['begin 1', 'begin 2', 'begin 3', 'begin 4', 'end 4', 'end 3', 'end 2', 'end 1']);
  });
});
