import { describe, expect, it } from 'vitest';
import { errno } from '../../../src/runtime/abi/errno.ts';
import { epollWait, fdCommand, fdGet, newEpoll, setNonblocking, untilReady } from '../../support/chat-calls.ts';
import { hasPointers } from '../../support/guest-binding.ts';
import type { TestGuest } from '../../support/test-guest.ts';
import { until } from '../../support/until.ts';
import { useGuests } from '../../support/use-guest.ts';
import { eventually, stdioRecord } from './client/pool-samples.ts';
import { errorCode, openServer, result, resultCode, submit, submitted } from './mcp-calls.ts';
import { type McpHost, openHost } from './mcp-host.ts';
import { notingServer } from './noting-server.ts';

const openGuest = useGuests();
const [IN, ERR, HUP] = [1, 8, 16];

const guestOf = (host: McpHost, task = {}, limits = {}) => openGuest({ mcp: () => host.side(task), limits, pages: 32 });
const tinyHost = () => openHost([stdioRecord('tiny', 'tiny.mjs')]);
const echoed = (text: string) => `{"content":[{"text":${JSON.stringify(text)},"type":"text"}]}`;

describe('mcp_submit and mcp_result', () => {
  it('run calls side by side, each with its own result, the same on every call [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    const calls = [];
    for (const message of ['one', 'two', 'three']) calls.push(await submitted(guest, fd, 'echo', { message }));
    expect(await fdGet(guest, calls[0] as number, fdCommand.GET_KIND)).toBe('{"kind":"McpCall"}');
    const texts = ['three', 'two', 'one', 'one'];
    for (const [index, call] of [calls[2], calls[1], calls[0], calls[0]].entries()) {
      expect(await result(guest, call as number)).toBe(echoed(texts[index] as string));
    }
  });

  if (hasPointers())
    it('wait for a result, and nothing is consumed by ENOSPC [mcp.submit]', async () => {
      const guest = await guestOf(await tinyHost());
      const call = await submitted(guest, await openServer(guest, 'tiny'), 'echo', { message: 'x' });
      const out = guest.heap.out(256).offer(3);
      expect(await guest.call('mcp_result', call, ...out.args)).toBe(-errno.ENOSPC);
      expect([out.length, out.isIntactBeyond(0)]).toEqual([echoed('x').length, true]);
      expect(await result(guest, call)).toBe(echoed('x'));
    });

  it('count what they keep in bytes, whatever the letters [mcp.submit.limit]', async () => {
    const guest = await guestOf(await tinyHost(), {}, { max_answer_bytes: 60 });
    const fd = await openServer(guest, 'tiny');
    const call = await submitted(guest, fd, 'echo', { message: 'ä€𝄞' });
    expect(await result(guest, call)).toBe(echoed('ä€𝄞'));
    expect(guest.state.answerBytes).toBe(Buffer.byteLength(echoed('ä€𝄞')));
    await guest.call('mcp_close', call);
    expect(guest.state.answerBytes).toBe(0);
    // 57 letters are below the limit, their 68 bytes are not.
    const long = await submitted(guest, fd, 'echo', { message: '€'.repeat(12) });
    expect(await result(guest, long)).toBe(echoed('€'.repeat(12)));
    expect(await submit(guest, fd, 'pid')).toBe(-errno.ENOMEM);
  });

  if (hasPointers())
    it('tell how many bytes an answer has that is larger than the buffer [mcp.submit] [mcp.call]', async () => {
      const guest = await guestOf(await tinyHost());
      const fd = await openServer(guest, 'tiny');
      const answer = echoed('ä€𝄞');
      const bytes = Buffer.byteLength(answer);
      const out = guest.heap.out(256).offer(answer.length);
      const call = await submitted(guest, fd, 'echo', { message: 'ä€𝄞' });
      expect(await guest.call('mcp_result', call, ...out.args)).toBe(-errno.ENOSPC);
      expect([out.length, out.isIntactBeyond(0)]).toEqual([bytes, true]);
      const text = [...guest.text('echo'), ...guest.text('{"message":"ä€𝄞"}')] as const;
      const held = guest.heap.out(256).offer(answer.length);
      expect(await guest.call('mcp_call_tool', fd, ...text, ...held.args)).toBe(-errno.ENOSPC);
      expect([held.length, guest.state.answerBytes]).toEqual([bytes, 2 * bytes]);
      const exact = guest.heap.out(256).offer(bytes);
      expect(await guest.call('mcp_call_tool', fd, ...text, ...exact.args)).toBe(bytes);
      expect([exact.length, guest.state.answerBytes]).toEqual([bytes, bytes]);
    });

  it('give a failed call as a result [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost(), { toolDenylist: ['environment'] });
    const fd = await openServer(guest, 'tiny');
    for (const [tool, code] of [
      ['environment', 'mcp_policy_denied'],
      ['fail', 'mcp_tool_error'],
      ['nothing', 'mcp_invalid_arguments'],
    ] as const) {
      expect(errorCode(await result(guest, await submitted(guest, fd, tool)))).toBe(code);
    }
  });

  it('have metrics: how long it took and how large the result is [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost());
    const call = await submitted(guest, await openServer(guest, 'tiny'), 'echo', { message: 'x' });
    await result(guest, call);
    const metrics = JSON.parse(await fdGet(guest, call, fdCommand.GET_METRICS));
    expect(metrics).toEqual({ duration_ms: expect.any(Number), result_bytes: echoed('x').length });
  });

  it('do not wait with O_NONBLOCK, which a call inherits; epoll tells when it is done [mcp.nonblocking]', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record, stdioRecord('tiny', 'tiny.mjs')]);
    const guest = await guestOf(host);
    const [hanging, tiny] = [await openServer(guest, 'hanging'), await openServer(guest, 'tiny')];
    for (const fd of [hanging, tiny]) await setNonblocking(guest, fd);
    const stuck = await submitted(guest, hanging, 'hang');
    const call = await submitted(guest, tiny, 'echo', { message: 'x' });
    expect(await fdGet(guest, call, fdCommand.GET_FLAGS)).toBe('{"flags":["O_NONBLOCK"]}');
    const epfd = await newEpoll(guest, [stuck, IN], [call, IN]);
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
    expect(await resultCode(guest, call)).toBe(-errno.EAGAIN);
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: call, events: IN }]);
    // Level-triggered, and an ADD after the end reports at once.
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: call, events: IN }]);
    expect(await untilReady(guest, call)).toBe(IN);
    expect(await result(guest, call)).toBe(echoed('x'));
    expect(await resultCode(guest, stuck)).toBe(-errno.EAGAIN);
    expect(await guest.call('mcp_close', call)).toBe(0);
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
  });

  it('are refused at limits.max_pending_calls, until one has ended [mcp.submit.limit]', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record, stdioRecord('tiny', 'tiny.mjs')]);
    const guest = await guestOf(host, {}, { max_pending_calls: 2 });
    const [hanging, tiny] = [await openServer(guest, 'hanging'), await openServer(guest, 'tiny')];
    const first = await submitted(guest, hanging, 'hang');
    const second = await submitted(guest, tiny, 'pid');
    expect(await submit(guest, tiny, 'pid')).toBe(-errno.EAGAIN);
    await result(guest, second);
    const third = await submitted(guest, hanging, 'hang');
    expect(await submit(guest, tiny, 'pid')).toBe(-errno.EAGAIN);
    await guest.call('spear_fd_cancel', first);
    await letGo(guest, 1);
    await result(guest, await submitted(guest, tiny, 'pid'));
    await guest.call('mcp_close', third);
    await letGo(guest, 0);
    await result(guest, await submitted(guest, tiny, 'pid'));
  });

  /** A cancelled call has its place until the host has let go of it. */
  const letGo = (guest: TestGuest, left: number) =>
    until(() => guest.state.link.unanswered === left, 'the host to let go');

  it('outlive the session that submitted them [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    const call = await submitted(guest, fd, 'echo', { message: 'x' });
    await guest.call('mcp_close', fd);
    expect(await result(guest, call)).toBe(echoed('x'));
  });
});

describe('canceling a call', () => {
  async function stuck() {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record]);
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'hanging');
    const call = await submitted(guest, fd, 'hang');
    await server.until('call');
    return { server, host, guest, fd, call };
  }

  it('with spear_fd_cancel: ERR and HUP, ECANCELED, and the server is told [mcp.cancel]', async () => {
    const { guest, call, server, host } = await stuck();
    const epfd = await newEpoll(guest, [call, IN]);
    expect(await guest.call('spear_fd_cancel', call)).toBe(0);
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: call, events: ERR | HUP }]);
    expect(await resultCode(guest, call)).toBe(-errno.ECANCELED);
    await server.until('call', 'cancelled');
    expect(await guest.call('spear_fd_cancel', call)).toBe(0);
    await eventually(() => expect(host.invocations.map(({ outcome }) => outcome)).toEqual(['mcp_cancelled']));
  });

  it.each(['mcp_close', 'cchat_close', 'spear_epoll_close'] as const)(
    'with %s: the server is told [mcp.cancel]',
    async (close) => {
      const { guest, call, server } = await stuck();
      expect(await guest.call(close, call)).toBe(0);
      await server.until('call', 'cancelled');
      expect(await resultCode(guest, call)).toBe(-errno.EBADF);
    },
  );

  it('leaves the others alone [mcp.cancel]', async () => {
    const { guest, call, server, fd } = await stuck();
    const other = await submitted(guest, fd, 'pid');
    await guest.call('spear_fd_cancel', call);
    expect(errorCode(await result(guest, other))).toBeUndefined();
    await server.until('call', 'cancelled');
  });

  it('that has ended changes nothing [mcp.cancel]', async () => {
    const guest = await guestOf(await tinyHost());
    const call = await submitted(guest, await openServer(guest, 'tiny'), 'echo', { message: 'x' });
    await result(guest, call);
    expect(await guest.call('spear_fd_cancel', call)).toBe(0);
    expect(await result(guest, call)).toBe(echoed('x'));
  });

  it('happens to everything that is open when the guest ends [mcp.cancel]', async () => {
    const { guest, server, host } = await stuck();
    await guest.close();
    await server.until('call', 'cancelled');
    expect(host.told('tool_call.finished').map(({ reason }) => reason)).toEqual(['mcp_cancelled']);
  });
});
