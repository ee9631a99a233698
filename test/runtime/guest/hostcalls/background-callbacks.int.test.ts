import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../../src/agent/chat/backends/script-schema.ts';
import {
  AUTO_TOOL_CALL,
  answer,
  contentOf,
  epollWait,
  fdCommand,
  newEpoll,
  newSession,
  recvJson,
  send,
  setArena,
  setNonblocking,
  writeTool,
} from '../../../support/chat-calls.ts';
import type { TestGuest, ToolHandler } from '../../../support/test-guest.ts';
import { until } from '../../../support/until.ts';
import { useGuests } from '../../../support/use-guest.ts';

const openGuest = useGuests();

const turns: readonly ScriptTurn[] = [
  {
    when: { role: 'user', tools: ['tool'] },
    reply: { tool_calls: [{ id: 'a', name: 'tool', arguments: {} }] },
    repeat: true,
  },
  { when: { role: 'user' }, reply: { content: 'without tools' }, repeat: true },
  { reply: { content: 'done' }, repeat: true },
];

/** A non-blocking AUTO send whose tool is `handler`; its response. */
async function startSend(guest: TestGuest, handler: ToolHandler): Promise<number> {
  const fd = await newSession(guest);
  await setNonblocking(guest, fd);
  await setArena(guest, fd, 1024);
  await writeTool(guest, fd, 'tool', guest.tool(handler));
  return send(guest, fd, AUTO_TOOL_CALL);
}

const untilCalled = (guest: TestGuest, count = 1) =>
  until(() => guest.state.waitingTools.length === count, 'the model to call the tool');

describe('the callbacks of a non-blocking send', () => {
  it('run inside spear_epoll_wait and nowhere else [callback.background]', async () => {
    const guest = await openGuest({ turns });
    let inside = false;
    let calledInside: boolean | undefined;
    const response = await startSend(guest, (call) => {
      calledInside = inside;
      return call.answer('');
    });
    await untilCalled(guest);
    // a sleep, a blocking send of another session and a look at the response do not run it
    await guest.enter('sleep_ms', 5);
    expect(await answer(guest, await newSession(guest))).toBe('without tools');
    expect(await guest.call('cchat_recv', response, ...guest.heap.out(8).args)).toBe(-11);
    expect(calledInside).toBeUndefined();

    const epfd = await newEpoll(guest, [response, 1]);
    inside = true;
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: response, events: 1 }]);
    inside = false;
    expect(calledInside).toBe(true);
    expect(contentOf(await recvJson(guest, response))).toBe('done');
  });

  it('run in a wait of 0 ms too, and in one on a set that does not have the response [callback.background]', async () => {
    const guest = await openGuest({ turns });
    let called = 0;
    const response = await startSend(guest, (call) => {
      called++;
      return call.answer('');
    });
    await untilCalled(guest);
    expect(await epollWait(guest, await newEpoll(guest), 0)).toEqual([]);
    expect(called).toBe(1);
    await epollWait(guest, await newEpoll(guest, [response, 1]), -1);
  });

  it('run one at a time, in the order in which they came [callback.background]', async () => {
    const guest = await openGuest({ turns });
    const order: string[] = [];
    const tool =
      (name: string): ToolHandler =>
      async (call) => {
        order.push(`${name} begins`);
        await guest.enter('sleep_ms', 2);
        order.push(`${name} ends`);
        return call.answer('');
      };
    const first = await startSend(guest, tool('first'));
    await untilCalled(guest, 1);
    const second = await startSend(guest, tool('second'));
    await untilCalled(guest, 2);
    for (const response of [second, first]) await epollWait(guest, await newEpoll(guest, [response, 1]), -1);
    expect(order).toEqual(['first begins', 'first ends', 'second begins', 'second ends']);
  });

  it('may suspend when they run in a wait that has not been suspended yet [callback.background]', async () => {
    const guest = await openGuest({ turns });
    const response = await startSend(guest, async (call) => {
      await guest.enter('sleep_ms', 1);
      return call.answer(String(await answer(guest, await newSession(guest))));
    });
    await untilCalled(guest);
    expect(await epollWait(guest, await newEpoll(guest, [response, 1]), -1)).toHaveLength(1);
    expect(guest.backend.requests.at(-1)?.messages.at(-1)?.content).toBe('without tools');
  });

  it('may close the epoll set that is being waited on: EBADF [callback.background]', async () => {
    const guest = await openGuest({ turns });
    const response = await startSend(guest, async (call) => {
      await guest.call('cchat_close', epfd);
      return call.answer('');
    });
    const epfd = await newEpoll(guest, [response, 1]);
    expect(await guest.call('spear_epoll_wait', epfd, ...guest.heap.out(64).args, -1)).toBe(-9);
  });

  it('are forgotten when the send was canceled [callback.background]', async () => {
    const guest = await openGuest({ turns });
    let called = false;
    const response = await startSend(guest, () => {
      called = true;
      return 0;
    });
    await untilCalled(guest);
    await guest.call('spear_fd_cancel', response);
    expect(await epollWait(guest, await newEpoll(guest, [response, 1]), 0)).toEqual([{ fd: response, events: 24 }]);
    expect(called).toBe(false);
  });

  it('run in the wait of another callback [callback.background]', async () => {
    const guest = await openGuest({ turns });
    const order: string[] = [];
    const background = await startSend(guest, (call) => {
      order.push('background');
      return call.answer('');
    });
    await untilCalled(guest);
    const fd = await newSession(guest);
    await setArena(guest, fd, 1024);
    const foreground = guest.tool(async (call) => {
      order.push('foreground begins');
      await epollWait(guest, await newEpoll(guest, [background, 1]), -1);
      order.push('foreground ends');
      return call.answer('');
    });
    await writeTool(guest, fd, 'tool', foreground);
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    expect(order).toEqual(['foreground begins', 'background', 'foreground ends']);
  });
});

describe('whether a send blocks', () => {
  const clear = '{"clear":["O_NONBLOCK"]}';
  const set = '{"set":["O_NONBLOCK"]}';

  it('was settled when it began: clearing the flag of the response later loses no callback [callback.background]', async () => {
    const guest = await openGuest({ turns });
    let called = false;
    const response = await startSend(guest, (call) => {
      called = true;
      return call.answer('');
    });
    expect(await guest.call('spear_fd_ctl', response, fdCommand.SET_FLAGS, ...guest.heap.arg(clear))).toBe(0);
    expect(await epollWait(guest, await newEpoll(guest, [response, 1]), -1)).toHaveLength(1);
    expect(called).toBe(true);
  });

  it('was settled when it began: setting the flag in a callback loses none of the later ones [callback.background]', async () => {
    const twice: readonly ScriptTurn[] = [
      {
        when: { role: 'user' },
        reply: {
          tool_calls: [
            { id: 'a', name: 'tool', arguments: {} },
            { id: 'b', name: 'tool', arguments: {} },
          ],
        },
      },
      { reply: { content: 'done' } },
    ];
    const guest = await openGuest({ turns: twice });
    const fd = await newSession(guest);
    let called = 0;
    await setArena(guest, fd, 1024);
    const index = guest.tool(async (call) => {
      called++;
      expect(await guest.call('spear_fd_ctl', fd + 1, fdCommand.SET_FLAGS, ...guest.heap.arg(set))).toBe(0);
      return call.answer('');
    });
    await writeTool(guest, fd, 'tool', index);
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    expect(called).toBe(2);
  });
});
