import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../src/agent/chat/backends/script-schema.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import {
  AUTO_TOOL_CALL,
  answer,
  HAND_BACK,
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
import { useGuests } from '../../support/use-guest.ts';
import { call, callsThenDone, echo, fail, messagesOf, onHost, pid, tiny, toolMessages, toolsOf } from './chat-sends.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { errorCode } from './mcp-calls.ts';
import { openHost } from './mcp-host.ts';
import { notingServer } from './noting-server.ts';

const openGuest = useGuests();
const openOn = (...about: Parameters<typeof onHost>) => openGuest(onHost(...about));

describe('the calls of one turn', () => {
  it('are answered in the model’s order, whatever kind they are and whenever they end [mcp.order]', async () => {
    const server = notingServer('counting', 'counting.mjs');
    const host = await openHost([server.record, tiny]);
    const work = encodedName('counting', 'work');
    const guest = await openOn(
      host,
      callsThenDone(
        call('1', work, { label: 'slow', ms: 200 }),
        call('2', 'sum'),
        call('3', work, { label: 'fast' }),
        call('4', 'nowhere'),
        call('5', 'mcp.tiny.echo', { message: 'alias' }),
        call('6', 'mcp.tiny.nothing'),
        call('7', fail),
        call('8', echo, { message: 1 }),
      ),
    );
    const fd = await newSession(guest);
    await setArena(guest, fd, 4096);
    await writeTool(
      guest,
      fd,
      'sum',
      guest.tool((tool) => tool.answer('3')),
    );
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    const texts = toolMessages(guest, 1).map(({ tool_call_id, content }) => {
      const parsed = JSON.parse(String(content)) as { content?: { text: string }[]; error?: { code: string } };
      return [tool_call_id, parsed.error?.code ?? parsed.content?.[0]?.text ?? parsed];
    });
    expect(texts).toEqual([
      ['1', 'slow'],
      ['2', 3],
      ['3', 'fast'],
      ['4', 'unknown_tool'],
      ['5', 'alias'],
      ['6', 'mcp_policy_denied'],
      ['7', 'mcp_tool_error'],
      ['8', 'mcp_invalid_arguments'],
    ]);
    const outcomes = new Map(host.invocations.map(({ callId, source, outcome }) => [callId, `${source} ${outcome}`]));
    expect(outcomes).toEqual(
      new Map([
        ['1', 'mcp ok'],
        ['2', 'native ok'],
        ['3', 'mcp ok'],
        ['5', 'mcp ok'],
        ['6', 'mcp mcp_policy_denied'],
        ['7', 'mcp mcp_tool_error'],
        ['8', 'mcp mcp_invalid_arguments'],
      ]),
    );
    expect(host.invocations).toHaveLength(7);
  });

  it('belong to the guest’s own tool where it has that name [mcp.order]', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, callsThenDone(call('a', echo, { message: 'hi' })));
    const fd = await newSession(guest);
    await setArena(guest, fd, 4096);
    await writeTool(
      guest,
      fd,
      echo,
      guest.tool((tool) => tool.answer('mine')),
    );
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(toolsOf(guest)?.filter((name) => name === echo)).toHaveLength(1);
    expect(toolMessages(guest, 1)[0]?.content).toBe('mine');
    expect(host.told('mcp.injected')[0]?.exclusions).toEqual([
      expect.objectContaining({ server_id: 'tiny', tool_name: 'echo', reason: 'name_collision' }),
    ]);
  });

  it('leave the session as it was, plus their errors, when they fail [mcp.transaction]', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, callsThenDone(call('a', fail), call('b', echo, { message: 'hi' })));
    const fd = await newSession(guest, 'question');
    await send(guest, fd, AUTO_TOOL_CALL);
    await say(guest, fd, 'user', 'again');
    await send(guest, fd, AUTO_TOOL_CALL);
    const turn = [
      {
        role: 'assistant',
        content: null,
        tool_calls: [expect.objectContaining({ id: 'a' }), expect.objectContaining({ id: 'b' })],
      },
      { role: 'tool', tool_call_id: 'a', content: expect.stringContaining('"code":"mcp_tool_error"') },
      { role: 'tool', tool_call_id: 'b', content: expect.stringContaining('hi') },
    ];
    expect(messagesOf(guest, 1)).toEqual([{ role: 'user', content: 'question' }, ...turn]);
    expect(messagesOf(guest, 3)).toEqual([
      { role: 'user', content: 'question' },
      ...turn,
      { role: 'assistant', content: 'done' },
      { role: 'user', content: 'again' },
      ...turn,
    ]);
  });

  it('are all answered when the send is canceled, at the servers too [mcp.transaction]', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const hang = encodedName('hanging', 'hang');
    const host = await openHost([server.record]);
    const guest = await openOn(host, callsThenDone(call('a', hang), call('b', hang)));
    const fd = await newSession(guest);
    await setNonblocking(guest, fd);
    const response = await send(guest, fd, AUTO_TOOL_CALL);
    await server.until('call', 'call');
    await guest.call('spear_fd_cancel', response);
    await server.until('call', 'call', 'cancelled', 'cancelled');
    await say(guest, fd, 'user', 'go on');
    await setParam(guest, fd, 'tool_choice', 'none');
    await guest.call('cchat_send', fd, 0);
    await expect.poll(() => guest.backend.requests.length).toBe(2);
    expect(
      toolMessages(guest, 1).map(({ tool_call_id, content }) => [tool_call_id, errorCode(String(content))]),
    ).toEqual([
      ['a', 'mcp_cancelled'],
      ['b', 'mcp_cancelled'],
    ]);
  });

  it('end with a guest that closed their session before [mcp.transaction]', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record]);
    const guest = await openOn(host, callsThenDone(call('a', encodedName('hanging', 'hang'))));
    const fd = await newSession(guest);
    await setNonblocking(guest, fd);
    await send(guest, fd, AUTO_TOOL_CALL);
    await server.until('call');
    await guest.call('cchat_close', fd);
    await guest.close();
    expect(host.told('tool_call.finished').map(({ reason }) => reason)).toEqual(['mcp_cancelled']);
    await server.until('call', 'cancelled');
  });

  it('are cut at max_tool_output_bytes', async () => {
    const huge = encodedName('huge', 'huge');
    const host = await openHost([stdioRecord('huge', 'huge.mjs')]);
    const guest = await openOn(host, callsThenDone(call('a', huge, { bytes: 50_000 })));
    const fd = await newSession(guest);
    await setParam(guest, fd, 'max_tool_output_bytes', 1_000);
    await send(guest, fd, AUTO_TOOL_CALL);
    const content = String(toolMessages(guest, 1)[0]?.content);
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(1_000);
    expect([errorCode(content), content.includes('… [truncated]')]).toEqual(['mcp_output_too_large', true]);
  });

  it('count against the limits of the send, which the trail tells [mcp.limits]', async () => {
    const host = await openHost([tiny]);
    const forever: ScriptTurn[] = [{ reply: { tool_calls: [call('a', pid), call('b', pid)] }, repeat: true }];
    const guest = await openOn(host, forever);
    const limited = async (param: string, value: number) => {
      const fd = await newSession(guest);
      await setParam(guest, fd, param, value);
      return recv(guest, await send(guest, fd, AUTO_TOOL_CALL));
    };
    expect(await limited('max_total_tool_calls', 3)).toContain('exceeded max_total_tool_calls');
    expect(host.invocations).toHaveLength(2);
    expect(await limited('max_iterations', 2)).toContain('exceeded max_iterations');
    expect(host.told('budget.hit').map(({ budget }) => budget)).toEqual(['max_total_tool_calls', 'max_iterations']);
  });
});

describe('handing back', () => {
  it('leaves MCP calls to the host: only the guest’s own are pending', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, callsThenDone(call('a', 'sum'), call('b', echo, { message: 'hi' })));
    const fd = await newSession(guest);
    await writeTool(guest, fd, 'sum', -1);
    const body = await recvJson(guest, await send(guest, fd, HAND_BACK));
    expect((body._spear as JsonObject).pending_tool_calls).toEqual([{ arguments: '{}', id: 'a', name: 'sum' }]);
    await guest.call('cchat_write_tool_result', fd, ...guest.text('a'), ...guest.text('3'));
    expect(await answer(guest, fd, HAND_BACK)).toBe('done');
    expect(toolMessages(guest, 1).map(({ content }) => content)).toEqual([
      '3',
      '{"content":[{"text":"hi","type":"text"}]}',
    ]);
  });

  it('makes an event of each call that the guest answered, or did not', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, callsThenDone(call('a', 'sum', { secret: 'hidden' })));
    const fd = await newSession(guest);
    await writeTool(guest, fd, 'sum', -1);
    await send(guest, fd, HAND_BACK);
    expect(host.told('tool_call.started').map(({ source, request_id }) => [source, request_id])).toEqual([
      ['native', 'a'],
    ]);
    expect(host.invocations).toEqual([]);
    await guest.call('cchat_write_tool_result', fd, ...guest.text('a'), ...guest.text('3'));
    await send(guest, fd, HAND_BACK);
    expect(host.invocations).toEqual([
      {
        run: 'test',
        kind: 'tool',
        source: 'native',
        session: `chat-${fd}`,
        server: null,
        tool: 'sum',
        callId: 'a',
        outcome: 'ok',
        durationMs: expect.any(Number),
        bytes: 1,
      },
    ]);
    expect(JSON.stringify(host.trail)).not.toContain('hidden');
  });
});

if (hasCallbacks())
  it('a tool in the guest leaves one event and two lines, failed or not [audit.calls]', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, callsThenDone(call('a', 'good', { n: 1 }), call('b', 'bad')));
    const fd = await newSession(guest);
    await setArena(guest, fd, 4096);
    await writeTool(
      guest,
      fd,
      'good',
      guest.tool((tool) => tool.answer('ok')),
    );
    await writeTool(
      guest,
      fd,
      'bad',
      guest.tool(() => -5),
    );
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(host.invocations.map(({ source, tool, outcome, bytes }) => [source, tool, outcome, bytes])).toEqual([
      ['native', 'good', 'ok', 2],
      ['native', 'bad', 'tool_exec_failed', expect.any(Number)],
    ]);
    const lines = host.trail.filter(({ event }) => event.startsWith('tool_call.'));
    expect(lines).toEqual([
      expect.objectContaining({ event: 'tool_call.started', request_id: 'a', args: { n: 1 }, server_id: null }),
      expect.objectContaining({ event: 'tool_call.finished', request_id: 'a', status: 'ok', reason: null }),
      expect.objectContaining({ event: 'tool_call.started', request_id: 'b', args: {} }),
      expect.objectContaining({
        event: 'tool_call.finished',
        request_id: 'b',
        status: 'failed',
        reason: 'tool_exec_failed',
      }),
    ]);
  });
