import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../../src/agent/chat/backends/script-schema.ts';
import {
  AUTO_TOOL_CALL,
  contentOf,
  epollWait,
  newEpoll,
  newSession,
  readEvents,
  readToEnd,
  recvJson,
  STREAM,
  send,
  setArena,
  setNonblocking,
  textOf,
  writeTool,
} from '../../../support/chat-calls.ts';
import type { TestGuest, ToolHandler } from '../../../support/test-guest.ts';
import { until } from '../../../support/until.ts';
import { useGuests } from '../../../support/use-guest.ts';

const EBADF = -9;
const openGuest = useGuests();

const turns: readonly ScriptTurn[] = [
  {
    when: { role: 'user' },
    reply: {
      content: 'Wait.',
      tool_calls: [
        { id: 'a', name: 'tool', arguments: {} },
        { id: 'b', name: 'missing', arguments: {} },
      ],
    },
  },
  { reply: { content: 'Done.' } },
];

async function startSend(guest: TestGuest, handler: ToolHandler, nonblocking = false): Promise<number> {
  const fd = await newSession(guest);
  if (nonblocking) await setNonblocking(guest, fd);
  await setArena(guest, fd, 1024);
  await writeTool(guest, fd, 'tool', guest.tool(handler));
  return send(guest, fd, AUTO_TOOL_CALL | STREAM);
}

const untilCalled = (guest: TestGuest) =>
  until(() => guest.state.waitingTools.length === 1, 'the model to call the tool');

describe('the callbacks of a streamed send', () => {
  it('run while cchat_read waits and nowhere else, between the events of their call [callback.background]', async () => {
    const guest = await openGuest({ turns });
    let reading = false;
    let calledWhileReading: boolean | undefined;
    const response = await startSend(guest, (call) => {
      calledWhileReading = reading;
      return call.answer('42');
    });
    await untilCalled(guest);
    await guest.enter('sleep_ms', 5);
    expect(calledWhileReading).toBeUndefined();
    reading = true;
    const events = await readToEnd(guest, response);
    expect(calledWhileReading).toBe(true);
    expect(events.filter(({ type }) => type !== 'usage')).toEqual([
      { type: 'text', text: 'Wait.' },
      { type: 'tool_start', id: 'a', name: 'tool' },
      { type: 'tool_start', id: 'b', name: 'missing' },
      { type: 'tool_result', id: 'b', name: 'missing', ok: false },
      { type: 'tool_result', id: 'a', name: 'tool', ok: true },
      { type: 'text', text: 'Done.' },
      { type: 'end', finish_reason: 'stop' },
    ]);
    expect(contentOf(await recvJson(guest, response))).toBe('Done.');
  });

  it('run in spear_epoll_wait, and in a read that may not wait [callback.background]', async () => {
    const guest = await openGuest({ turns: turns.map((turn) => ({ ...turn, repeat: true })) });
    let called = 0;
    const count: ToolHandler = (call) => {
      called += 1;
      return call.answer('');
    };
    const first = await startSend(guest, count);
    await untilCalled(guest);
    const epfd = await newEpoll(guest, [first, 1]);
    await epollWait(guest, epfd, 0);
    expect(called).toBe(1);
    expect(textOf(await readToEnd(guest, first))).toBe('Wait.Done.');
    const second = await startSend(guest, count, true);
    await untilCalled(guest);
    await readEvents(guest, second); // those that were there
    await guest.call('cchat_read', second, ...guest.heap.out(1024).args);
    expect(called).toBe(2);
  });

  it('may close what is being read [callback.background]', async () => {
    const guest = await openGuest({ turns });
    const response = await startSend(guest, async (call) => {
      await guest.call('cchat_close', response);
      return call.answer('');
    });
    await untilCalled(guest);
    await readEvents(guest, response);
    expect(await guest.call('cchat_read', response, ...guest.heap.out(64).args)).toBe(EBADF);
  });
});
