import { describe, expect, it } from 'vitest';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { errno } from '../../../src/runtime/abi/errno.ts';
import {
  AUTO_TOOL_CALL,
  answer,
  HAND_BACK,
  newSession,
  say,
  send,
  setParam,
  writeTool,
} from '../../support/chat-calls.ts';
import { useGuests } from '../../support/use-guest.ts';
import { call, callsThenDone, echo, messagesOf, onHost, pid, tiny, toolMessages, toolsOf } from './chat-sends.ts';
import { errorCode } from './mcp-calls.ts';
import { openHost } from './mcp-host.ts';

const openGuest = useGuests();
const openOn = (...about: Parameters<typeof onHost>) => openGuest(onHost(...about));

describe('a guest that knows nothing of MCP', () => {
  it('gets the tools of its servers injected, and their calls answered', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, callsThenDone(call('a', echo, { message: 'hi' })));
    expect(await answer(guest, await newSession(guest), AUTO_TOOL_CALL)).toBe('done');
    expect(toolsOf(guest)).toEqual(
      ['echo', 'environment', 'fail', 'pid', 'structured'].map((tool) => encodedName('tiny', tool)),
    );
    expect(toolMessages(guest, 1)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: '{"content":[{"text":"hi","type":"text"}]}' },
    ]);
  });

  it('has its own tools first', async () => {
    const host = await openHost([Object.freeze({ ...tiny, allowed_tools: ['echo'] })]);
    const guest = await openOn(host);
    const fd = await newSession(guest);
    await writeTool(guest, fd, 'zzz', -1);
    await send(guest, fd, HAND_BACK);
    expect(toolsOf(guest)).toEqual(['zzz', echo]);
  });

  it('gets none without a flag: nobody could answer their calls [mcp.chat.flags]', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host);
    const fd = await newSession(guest);
    for (const flags of [0, 1]) await send(guest, fd, flags);
    for (const flags of [AUTO_TOOL_CALL, HAND_BACK, AUTO_TOOL_CALL | HAND_BACK]) await send(guest, fd, flags);
    expect([0, 1, 2, 3, 4].map((request) => toolsOf(guest, request)?.length)).toEqual([undefined, undefined, 5, 5, 5]);
  });

  it('gets none where the task has MCP off [mcp.chat.flags]', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, callsThenDone(call('a', echo, { message: 'hi' })), { enabled: false });
    await send(guest, await newSession(guest), AUTO_TOOL_CALL);
    expect(toolsOf(guest)).toBeUndefined();
    expect(errorCode(String(toolMessages(guest, 1)[0]?.content))).toBe('mcp_policy_denied');
    expect(host.pool.stats().servers).toBe(0);
  });
});

describe('the session’s parameters', () => {
  const task = { defaultServerIds: ['tiny'], allowedServerIds: ['tiny', 'other'] };

  it.each<[string, string, unknown, keyof typeof errno]>([
    ['a server outside the task', 'mcp.server_ids', ['tiny', 'foreign'], 'EACCES'],
    ['a key of the host', 'mcp.task_tool_allowlist', ['*'], 'EACCES'],
    ['no list', 'mcp.server_ids', 'tiny', 'EINVAL'],
    ['a list of numbers', 'mcp.tool_denylist', [1], 'EINVAL'],
    ['no truth value', 'mcp.enabled', 'true', 'EINVAL'],
    ['an unknown naming', 'mcp.tool_naming', 'short', 'EINVAL'],
    ['an unknown placeholder', 'mcp.inventory', `\${nothing}`, 'EINVAL'],
    ['an unknown key', 'mcp.nonsense', true, 'EINVAL'],
  ])('%s is refused, and the session keeps what it had [mcp.params]', async (_, key, value, expected) => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, undefined, task);
    const fd = await newSession(guest);
    await setParam(guest, fd, 'mcp.tool_allowlist', ['echo']);
    expect(await setParam(guest, fd, key, value as string)).toBe(-errno[expected]);
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(toolsOf(guest)).toEqual([echo]);
  });

  it('cannot turn MCP on where the task has it off [mcp.params]', async () => {
    const guest = await openOn(await openHost([tiny]), undefined, { enabled: false });
    const fd = await newSession(guest);
    expect(await setParam(guest, fd, 'mcp.enabled', true)).toBe(-errno.EACCES);
    expect(await setParam(guest, fd, 'mcp.enabled', false)).toBe(0);
  });

  it('narrow a session, each on its own, and never reach the provider [mcp.params]', async () => {
    const host = await openHost([tiny]);
    const guest = await openOn(host, undefined, task);
    const [one, two] = [await newSession(guest), await newSession(guest)];
    expect(await setParam(guest, one, 'mcp.server_ids', [])).toBe(0);
    expect(await setParam(guest, two, 'mcp.tool_denylist', ['e*', 'p*'])).toBe(0);
    expect(await setParam(guest, two, 'temperature', 0.5)).toBe(0);
    for (const fd of [one, two]) await send(guest, fd, AUTO_TOOL_CALL);
    expect([toolsOf(guest, 0), toolsOf(guest, 1)?.length]).toEqual([undefined, 2]);
    expect(Object.keys(guest.backend.requests[1] ?? {}).sort()).toEqual(['messages', 'model', 'temperature', 'tools']);
  });

  it('make an inventory: a system message after the guest’s own, for the request alone', async () => {
    const host = await openHost([Object.freeze({ ...tiny, allowed_tools: ['echo', 'pid'] })]);
    const guest = await openOn(host, callsThenDone(call('a', pid)));
    const fd = await guest.call('cchat_create');
    await say(guest, fd, 'system', 'be brief');
    await say(guest, fd, 'user', 'hi');
    expect(await setParam(guest, fd, 'mcp.inventory', `\${tool_count} tools of \${server_names}`)).toBe(0);
    await send(guest, fd, AUTO_TOOL_CALL);
    await setParam(guest, fd, 'mcp.inventory', false);
    await say(guest, fd, 'user', 'bye');
    await send(guest, fd, AUTO_TOOL_CALL);
    const roles = [0, 1, 2].map((request) =>
      messagesOf(guest, request)
        .map(({ role, content }) => [role, content])
        .slice(0, 3),
    );
    const inventory = ['system', '2 tools of tiny'];
    expect(roles[0]).toEqual([['system', 'be brief'], inventory, ['user', 'hi']]);
    expect(roles[1]).toEqual([['system', 'be brief'], inventory, ['user', 'hi']]);
    expect(roles[2]?.slice(0, 2)).toEqual([
      ['system', 'be brief'],
      ['user', 'hi'],
    ]);
  });
});
