import { describe, expect, it } from 'vitest';
import {
  AUTO_TOOL_CALL,
  answer,
  HAND_BACK,
  newSession,
  recv,
  send,
  setParam,
  writeTool,
} from '../../support/chat-calls.ts';
import { useGuests } from '../../support/use-guest.ts';
import { echo, messagesOf, onHost, pid, tiny, toolsOf } from './chat-sends.ts';
import { openHost } from './mcp-host.ts';

const openGuest = useGuests();
const openOn = (...about: Parameters<typeof onHost>) => openGuest(onHost(...about));

describe('tool_choice', () => {
  const force = (name: string) => ({ type: 'function', function: { name } });

  it('"none" injects nothing and asks no server [mcp.tool-choice]', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host);
    const fd = await newSession(guest);
    await setParam(guest, fd, 'tool_choice', 'none');
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(guest.backend.requests[0]).not.toHaveProperty('tools');
    expect(guest.backend.requests[0]).not.toHaveProperty('tool_choice');
    expect([host.pool.stats().servers, host.trail.map(({ event }) => event)]).toEqual([0, ['model_call.finished']]);
  });

  it('"auto" and "required" go with the injected tools [mcp.tool-choice]', async () => {
    const guest = await openOn(await openHost([tiny]));
    const fd = await newSession(guest);
    for (const [request, choice] of ['auto', 'required'].entries()) {
      await setParam(guest, fd, 'tool_choice', choice);
      await send(guest, fd, AUTO_TOOL_CALL);
      expect(guest.backend.requests[request]?.tool_choice).toBe(choice);
      expect(toolsOf(guest, request)).toHaveLength(5);
    }
  });

  it('that forces mcp.<server>.<tool> is translated to the name it was injected with [mcp.tool-choice]', async () => {
    const guest = await openOn(await openHost([tiny]));
    const fd = await newSession(guest);
    await setParam(guest, fd, 'tool_choice', force('mcp.tiny.echo'));
    await send(guest, fd, AUTO_TOOL_CALL);
    await setParam(guest, fd, 'mcp.tool_naming', 'readable');
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(guest.backend.requests.map(({ tool_choice }) => tool_choice)).toEqual([force(echo), force('tiny_echo')]);
  });

  it.each<[string, string, number]>([
    ['is denied', 'mcp.tiny.pid', AUTO_TOOL_CALL],
    ['belongs to another server', 'mcp.other.echo', AUTO_TOOL_CALL],
    ['is denied, in its encoded form', pid, AUTO_TOOL_CALL],
    ['is not injected, for want of a flag', 'mcp.tiny.echo', 0],
  ])('that forces a tool which %s is an error, and no model is asked [mcp.tool-choice]', async (_, name, flags) => {
    const guest = await openOn(await openHost([tiny]), undefined, { toolDenylist: ['pid'] });
    const fd = await newSession(guest);
    await setParam(guest, fd, 'tool_choice', force(name));
    expect(await recv(guest, await send(guest, fd, flags))).toBe(
      '{"error":{"code":"mcp_policy_denied","message":"tool_choice forces an MCP tool that is not among the tools of this send","retryable":false}}',
    );
    expect(guest.backend.requests).toEqual([]);
    // The session goes on as before.
    await setParam(guest, fd, 'tool_choice', 'auto');
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('hello');
    expect(messagesOf(guest, 0)).toEqual([{ role: 'user', content: 'hi' }]);
  });

  it('that forces a tool of the guest passes, whatever its name looks like [mcp.tool-choice]', async () => {
    const guest = await openOn(await openHost([tiny]));
    const fd = await newSession(guest);
    await writeTool(guest, fd, 'mcp.tiny.mine', -1);
    await setParam(guest, fd, 'tool_choice', force('mcp.tiny.mine'));
    for (const flags of [0, HAND_BACK]) await send(guest, fd, flags);
    expect(guest.backend.requests.map(({ tool_choice }) => tool_choice)).toEqual(Array(2).fill(force('mcp.tiny.mine')));
  });
});
