import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../src/agent/chat/backends/script-schema.ts';
import {
  AUTO_TOOL_CALL,
  answer,
  newEpoll,
  newSession,
  recv,
  send,
  setArena,
  setNonblocking,
  writeTool,
} from '../support/chat-calls.ts';
import type { TestGuest } from '../support/test-guest.ts';
import { useGuests } from '../support/use-guest.ts';

const PAGE = 65_536;
const openGuest = useGuests();

const turns: readonly ScriptTurn[] = [
  {
    when: { role: 'user', tools: ['tool'] },
    reply: { tool_calls: [{ id: 'a', name: 'tool', arguments: { text: 'ü' } }] },
    repeat: true,
  },
  { when: { role: 'user' }, reply: { content: 'hello' }, repeat: true },
  { reply: { content: 'done' }, repeat: true },
];

/** Grows the memory, which detaches every view of it, and gives the first new byte. */
const grow = (guest: TestGuest, pages = 1) => guest.heap.memory.grow(pages) * PAGE;

async function sessionWithTool(guest: TestGuest, handler: Parameters<TestGuest['tool']>[0]): Promise<number> {
  const fd = await newSession(guest);
  await setArena(guest, fd, 1024);
  await writeTool(guest, fd, 'tool', guest.tool(handler));
  return fd;
}

describe('memory that grows', () => {
  it('between two calls: the new pages can be read and written at once', async () => {
    const guest = await openGuest({ turns });
    const response = await send(guest, await newSession(guest));
    const expected = await recv(guest, response);
    const place = grow(guest);
    guest.heap.bytes.write('from new pages', place);
    expect(await guest.call('log', 2, place, 14)).toBe(0);
    expect(guest.output).toEqual([['stdout', 'from new pages\n']]);
    guest.heap.bytes.writeUInt32LE(4096, place + 16);
    expect(await guest.call('cchat_recv', response, place + 32, place + 16)).toBe(expected.length);
    expect(guest.heap.bytes.toString('utf8', place + 32, place + 32 + expected.length)).toBe(expected);
    expect(await guest.call('log', 2, place + PAGE - 1, 2)).toBe(-14);
  });

  it('by no page at all detaches the views too', async () => {
    const guest = await openGuest();
    await guest.call('log', 2, ...guest.text('one'));
    grow(guest, 0);
    await guest.call('log', 2, ...guest.text('two'));
    expect(guest.output.map(([, text]) => text)).toEqual(['one\n', 'two\n']);
  });

  it('inside a callback: its answer is read from where it is now', async () => {
    const guest = await openGuest({ turns });
    const fd = await sessionWithTool(guest, (call) => {
      grow(guest, 16);
      return call.answer('grown');
    });
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    expect(guest.backend.requests[1]?.messages.at(-1)?.content).toBe('grown');
  });

  it('between a callback’s two tries', async () => {
    const guest = await openGuest({ turns });
    const sizes: number[] = [];
    const fd = await sessionWithTool(guest, (call) => {
      sizes.push(call.capacity);
      grow(guest);
      expect(call.args).toBe('{"text":"ü"}');
      if (sizes.length > 1) return call.answer('x'.repeat(40));
      guest.heap.bytes.writeUInt32LE(40, call.outLengthPtr);
      return -28;
    });
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(sizes[1]).toBe(40);
    expect(guest.backend.requests[1]?.messages.at(-1)?.content).toBe('x'.repeat(40));
  });

  it('inside a callback before and after its own hostcalls, the suspending ones included', async () => {
    const guest = await openGuest({ turns });
    const fd = await sessionWithTool(guest, async (call) => {
      grow(guest);
      await guest.enter('sleep_ms', 1);
      grow(guest);
      const inner = String(await answer(guest, await newSession(guest)));
      grow(guest);
      return call.answer(inner);
    });
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    expect(guest.backend.requests.at(-1)?.messages.at(-1)?.content).toBe('hello');
  });

  it('while spear_epoll_wait is suspended: the records go into the memory as it is now', async () => {
    const guest = await openGuest({ turns });
    const fd = await newSession(guest);
    await setNonblocking(guest, fd);
    const release = guest.backend.hold();
    const response = await send(guest, fd);
    const out = guest.heap.out(64);
    const waiting = guest.call('spear_epoll_wait', await newEpoll(guest, [response, 1]), ...out.args, -1);
    grow(guest, 3);
    release();
    expect(await waiting).toBe(1);
    expect(out.bytes().readInt32LE(0)).toBe(response);
    expect(out.isIntactBeyond(8)).toBe(true);
  });

  it('while an mcp call is suspended: nothing is written to the old memory', async () => {
    const guest = await openGuest();
    const out = guest.heap.out(64);
    const waiting = guest.call('mcp_registry_list', ...out.args);
    grow(guest);
    expect(await waiting).toBe(-13);
    expect(out.isIntactBeyond(0)).toBe(true);
    expect(out.length).toBe(64);
  });
});
