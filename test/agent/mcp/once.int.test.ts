import { describe, expect, it } from 'vitest';
import { errno } from '../../../src/runtime/abi/errno.ts';
import { hasPointers } from '../../support/guest-binding.ts';
import { useGuests } from '../../support/use-guest.ts';
import { callInto, callTool, errorCode, listTools, openServer, result, submitted } from './mcp-calls.ts';
import { type McpHost, openHost } from './mcp-host.ts';
import { notingServer } from './noting-server.ts';

const openGuest = useGuests();

const guestOf = (host: McpHost, task = {}, limits = {}) => openGuest({ mcp: () => host.side(task), limits, pages: 32 });
const echoed = (text: string) => `{"content":[{"text":${JSON.stringify(text)},"type":"text"}]}`;

const work = (label: string) => ({ label });
const small = 8;

async function counting() {
  const server = notingServer('counting', 'counting.mjs');
  const guest = await guestOf(await openHost([server.record]));
  return { guest, lines: server.lines, fd: await openServer(guest, 'counting') };
}

it('a call whose result was handed over executed once, and nothing of it is kept [mcp.once]', async () => {
  const { guest, fd, lines } = await counting();
  expect(await callTool(guest, fd, 'work', work('a'))).toBe(echoed('a'));
  expect(lines()).toEqual(['a']);
  expect(await callTool(guest, fd, 'work', work('a'))).toBe(echoed('a'));
  expect(lines()).toEqual(['a', 'a']);
});

const withBuffers = hasPointers() ? describe : () => {};
withBuffers('a call never executes twice', () => {
  it('after ENOSPC: the same call fetches the result, however often it has to ask [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    const first = await callInto(guest, fd, 'work', work('a'), small);
    expect([first.rc, first.out.length]).toEqual([-errno.ENOSPC, echoed('a').length]);
    const again = await callInto(guest, fd, 'work', work('a'), small + 1);
    expect([again.rc, again.out.length]).toEqual([-errno.ENOSPC, echoed('a').length]);
    const none = await callInto(guest, fd, 'work', work('a'), 0);
    expect(none.rc).toBe(-errno.ENOSPC);
    const fetched = await callInto(guest, fd, 'work', work('a'), echoed('a').length);
    expect([fetched.rc, fetched.out.text()]).toEqual([echoed('a').length, echoed('a')]);
    expect(lines()).toEqual(['a']);
  });

  it('and a result that was taken is gone: the same call is a new one [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await callTool(guest, fd, 'work', work('a'));
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it.each<[string, string, unknown]>([
    ['other arguments', 'work', work('b')],
    ['the same arguments in other bytes', 'work', '{ "label":"a"}'],
    ['another tool', 'seen', ''],
  ])('a different call drops it: %s [mcp.once]', async (_, tool, args) => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await callTool(guest, fd, tool, args);
    const before = lines().length;
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toHaveLength(before + 1);
  });

  it('a different call that fails drops it too [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    expect(errorCode(await callTool(guest, fd, 'nothing'))).toBe('mcp_invalid_arguments');
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('closing drops it [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await guest.call('mcp_close', fd);
    expect((await callInto(guest, fd, 'work', work('a'), 64)).rc).toBe(-errno.EBADF);
    await callTool(guest, await openServer(guest, 'counting'), 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('it waits on its own session: another one of the same server knows nothing of it [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    const other = await openServer(guest, 'counting');
    await callInto(guest, fd, 'work', work('a'), small);
    await callTool(guest, other, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('submitting the same call, or listing, neither takes nor drops it [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await result(guest, await submitted(guest, fd, 'work', work('a')));
    await listTools(guest, fd);
    expect(lines()).toEqual(['a', 'a']);
    expect(await callTool(guest, fd, 'work', work('a'))).toBe(echoed('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('a call whose buffer leaves the memory does not execute at all [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    const [tool, args] = [guest.text('work'), guest.text('{"label":"a"}')];
    const length = guest.heap.word(64);
    const beyond = guest.heap.memory.buffer.byteLength - 8;
    expect(await guest.call('mcp_call_tool', fd, ...tool, ...args, beyond, length)).toBe(-errno.EFAULT);
    expect(await guest.call('mcp_call_tool', fd, ...tool, ...args, 1024, beyond + 6)).toBe(-errno.EFAULT);
    await callTool(guest, fd, 'work', work('b'));
    expect(lines()).toEqual(['b']);
  });

  it('a failed call is held and fetched like any other [mcp.once]', async () => {
    const server = notingServer('mortal', 'mid-call.mjs');
    const guest = await guestOf(await openHost([server.record]));
    const fd = await openServer(guest, 'mortal');
    expect((await callInto(guest, fd, 'die', '', small)).rc).toBe(-errno.ENOSPC);
    expect(errorCode(await callTool(guest, fd, 'die'))).toBe('mcp_unavailable');
    expect(server.lines()).toEqual(['die']);
  });
});
