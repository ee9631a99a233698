import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../src/agent/chat/backends/script-schema.ts';
import {
  AUTO_TOOL_CALL,
  contentOf,
  HAND_BACK,
  METRICS,
  newSession,
  recv,
  recvJson,
  say,
  send,
  setArena,
  setNonblocking,
  setParam,
  writeTool,
} from '../../support/chat-calls.ts';
import { hasCallbacks } from '../../support/guest-binding.ts';
import type { TestGuest } from '../../support/test-guest.ts';
import { until } from '../../support/until.ts';
import { useGuests } from '../../support/use-guest.ts';

const EINVAL = -22;
const openGuest = useGuests();

const twoCalls: readonly ScriptTurn[] = [
  {
    when: { role: 'user' },
    reply: {
      content: 'let me see',
      tool_calls: [
        { id: 'a', name: 'sum', arguments: { y: 2, x: 1 } },
        { id: 'b', name: 'nowhere', arguments: {} },
        { id: 'c', name: 'sum', arguments: '' },
      ],
    },
  },
  { reply: { content: 'done' }, repeat: true },
];
const callsForever: readonly ScriptTurn[] = [
  { reply: { tool_calls: [{ id: 'a', name: 'sum', arguments: {} }] }, repeat: true },
];

const result = (guest: TestGuest, fd: number, id: string, content: string) =>
  guest.call('cchat_write_tool_result', fd, ...guest.text(id), ...guest.text(content));

async function sessionWithSum(guest: TestGuest, index = -1): Promise<number> {
  const fd = await newSession(guest);
  await writeTool(guest, fd, 'sum', index);
  return fd;
}

describe('handing back', () => {
  it('ends the send with the calls that the guest has to answer, in _spear [handback.body]', async () => {
    const guest = await openGuest({ turns: twoCalls });
    const body = await recvJson(guest, await send(guest, await sessionWithSum(guest), HAND_BACK));
    expect(body._spear).toEqual({
      backend: 'scripted',
      model: 'scripted',
      pending_tool_calls: [
        { arguments: '{"x":1,"y":2}', id: 'a', name: 'sum' },
        { arguments: '', id: 'c', name: 'sum' },
      ],
    });
    expect(contentOf(body)).toBe('let me see');
  });

  it('goes on when all are answered, in the model’s order whatever the guest’s [handback.answers]', async () => {
    const guest = await openGuest({ turns: twoCalls });
    const fd = await sessionWithSum(guest);
    await send(guest, fd, HAND_BACK);
    expect(await result(guest, fd, 'c', 'zero')).toBe(0);
    expect(await guest.call('cchat_send', fd, HAND_BACK)).toBe(EINVAL);
    expect(await result(guest, fd, 'a', 'three')).toBe(0);
    await say(guest, fd, 'user', 'and then');
    expect(contentOf(await recvJson(guest, await send(guest, fd, HAND_BACK)))).toBe('done');
    expect(guest.backend.requests[1]?.messages.slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'three' },
      {
        role: 'tool',
        tool_call_id: 'b',
        content: '{"error":{"code":"unknown_tool","message":"there is no tool named \\"nowhere\\""}}',
      },
      { role: 'tool', tool_call_id: 'c', content: 'zero' },
      { role: 'user', content: 'and then' },
    ]);
  });

  it('does not end the send for calls that the host can answer itself [handback.body]', async () => {
    const guest = await openGuest({
      turns: [
        { when: { role: 'user' }, reply: { tool_calls: [{ id: 'b', name: 'nowhere', arguments: {} }] } },
        { reply: { content: 'done' } },
      ],
    });
    const body = await recvJson(guest, await send(guest, await sessionWithSum(guest), HAND_BACK));
    expect(contentOf(body)).toBe('done');
    expect(body._spear).not.toHaveProperty('pending_tool_calls');
  });

  it('goes on counting max_iterations [handback.limits]', async () => {
    const guest = await openGuest({ turns: callsForever });
    const fd = await sessionWithSum(guest);
    await setParam(guest, fd, 'max_iterations', 3);
    for (let round = 0; round < 3; round++) {
      expect(await recv(guest, await send(guest, fd, HAND_BACK))).toContain('pending_tool_calls');
      await result(guest, fd, 'a', '3');
    }
    expect(await recv(guest, await send(guest, fd, HAND_BACK))).toBe(
      '{"error":{"code":"tool_call_limit","message":"exceeded max_iterations","retryable":false}}',
    );
    expect(guest.backend.requests).toHaveLength(3);
    // and the next send begins anew
    expect(await recv(guest, await send(guest, fd, HAND_BACK))).toContain('pending_tool_calls');
  });

  it('goes on counting max_total_tool_calls, and the metrics [handback.limits]', async () => {
    const guest = await openGuest({ turns: callsForever });
    const fd = await sessionWithSum(guest);
    await setParam(guest, fd, 'max_tool_calls', 2);
    let response = await send(guest, fd, HAND_BACK);
    await result(guest, fd, 'a', '3');
    response = await send(guest, fd, HAND_BACK | METRICS);
    const out = guest.heap.out(1024);
    await guest.call('cchat_ctl', response, 2, ...out.args);
    expect(JSON.parse(out.text())).toMatchObject({ iterations: 2, tool_calls: 2 });
    await result(guest, fd, 'a', '3');
    expect(await recv(guest, await send(guest, fd, HAND_BACK))).toBe(
      '{"error":{"code":"tool_call_limit","message":"exceeded max_total_tool_calls","retryable":false}}',
    );
  });

  if (hasCallbacks())
    it('with AUTO_TOOL_CALL hands back only what has no function [handback.mixed]', async () => {
      const guest = await openGuest({
        turns: [
          {
            when: { role: 'user' },
            reply: {
              tool_calls: [
                { id: 'a', name: 'inside', arguments: {} },
                { id: 'b', name: 'sum', arguments: {} },
              ],
            },
          },
          { reply: { content: 'done' } },
        ],
      });
      const fd = await sessionWithSum(guest, -1);
      await setArena(guest, fd, 1024);
      await writeTool(
        guest,
        fd,
        'inside',
        guest.tool((call) => call.answer('ran')),
      );
      const body = await recvJson(guest, await send(guest, fd, HAND_BACK | AUTO_TOOL_CALL));
      expect((body._spear as { pending_tool_calls: { id: string }[] }).pending_tool_calls.map(({ id }) => id)).toEqual([
        'b',
      ]);
      await result(guest, fd, 'b', '3');
      await send(guest, fd, HAND_BACK | AUTO_TOOL_CALL);
      expect(guest.backend.requests[1]?.messages.slice(2).map(({ content }) => content)).toEqual(['ran', '3']);
    });

  it('without AUTO_TOOL_CALL hands back tools with a function too [handback.mixed]', async () => {
    const guest = await openGuest({ turns: callsForever });
    const fd = await sessionWithSum(
      guest,
      guest.tool(() => 0),
    );
    expect(await recv(guest, await send(guest, fd, HAND_BACK))).toContain('"pending_tool_calls":[{');
  });
});

describe('calls that were handed back and will never be answered', () => {
  it('are answered by the host when the guest closed the response before it saw them [handback.lost]', async () => {
    const guest = await openGuest({ turns: twoCalls });
    const fd = await sessionWithSum(guest);
    await setNonblocking(guest, fd);
    const response = await send(guest, fd, HAND_BACK);
    await until(() => guest.service.totals.sends === 1, 'the turn to be handed back');
    await guest.call('cchat_close', response);
    await say(guest, fd, 'user', 'never mind');
    await guest.call('cchat_send', fd, HAND_BACK);
    await until(() => guest.backend.requests.length === 2, 'the next request');
    const messages = guest.backend.requests[1]?.messages ?? [];
    expect(messages.map(({ role, tool_call_id }) => tool_call_id ?? role)).toEqual([
      'user',
      'assistant',
      'a',
      'b',
      'c',
      'user',
    ]);
    expect(JSON.parse(messages[2]?.content as string)).toMatchObject({ error: { code: 'cancelled' } });
  });
});
