import { describe, expect, it } from 'vitest';
import type { CallName } from '../../../../src/runtime/abi/calls.ts';
import { epollWait, fdCommand, newEpoll, newSession, send, setNonblocking } from '../../../support/chat-calls.ts';
import type { TestGuest } from '../../../support/test-guest.ts';
import { until } from '../../../support/until.ts';
import { useGuests } from '../../../support/use-guest.ts';
import { pending } from './errno-cases/situations.ts';

const [EBADF, ECANCELED, EMFILE] = [-9, -125, -24];
const openGuest = useGuests();

const closers: readonly CallName[] = ['cchat_close', 'mcp_close', 'spear_epoll_close', 'user_stream_close'];
const kinds: Readonly<Record<string, (guest: TestGuest) => Promise<number>>> = {
  ChatSession: (guest) => guest.call('cchat_create'),
  ChatResponse: async (guest) => send(guest, await newSession(guest)),
  Epoll: (guest) => guest.call('spear_epoll_create'),
};
const isOpen = async (guest: TestGuest, fd: number) => (await guest.call('spear_fd_cancel', fd)) === 0;

describe('descriptor numbers', () => {
  it('start at 1000, rise by one and are shared by all kinds [fd.numbers]', async () => {
    const guest = await openGuest();
    expect(await guest.call('cchat_create')).toBe(1000);
    expect(await guest.call('spear_epoll_create')).toBe(1001);
    expect(await guest.call('cchat_send', 1000, 0)).toBe(1002);
    expect(await guest.call('cchat_create')).toBe(1003);
  });

  it('are never used again [fd.numbers]', async () => {
    const guest = await openGuest({ limits: { max_fds: 3 } });
    const seen = new Set<number>();
    for (let count = 0; count < 50; count++) {
      const fd = await guest.call(count % 2 ? 'cchat_create' : 'spear_epoll_create');
      expect(seen).not.toContain(fd);
      seen.add(fd);
      await guest.call('cchat_close', fd);
    }
    expect(Math.max(...seen)).toBe(1049);
  });

  it('are not spent on what could not be opened [fd.numbers]', async () => {
    const guest = await openGuest({ limits: { max_fds: 1 } });
    expect(await guest.call('cchat_create')).toBe(1000);
    expect(await guest.call('cchat_create')).toBe(EMFILE);
    await guest.call('cchat_close', 1000);
    expect(await guest.call('cchat_create')).toBe(1001);
  });

  it('belong to one instance [fd.numbers]', async () => {
    const [one, other] = [await openGuest(), await openGuest()];
    await one.call('cchat_create');
    expect(await other.call('cchat_close', 1000)).toBe(EBADF);
    expect(await other.call('cchat_create')).toBe(1000);
  });
});

describe.each(closers)('%s', (close) => {
  it.each(Object.keys(kinds))('closes a %s, twice [fd.close]', async (kind) => {
    const guest = await openGuest();
    const fd = await (kinds[kind] as (typeof kinds)[string])(guest);
    expect(await isOpen(guest, fd)).toBe(true);
    expect(await guest.call(close, fd)).toBe(0);
    expect(await isOpen(guest, fd)).toBe(false);
    expect(await guest.call(close, fd)).toBe(0);
  });
});

describe('closing', () => {
  it('by spear_fd_ctl is the same, twice too [fd.close]', async () => {
    const guest = await openGuest();
    const fd = await guest.call('cchat_create');
    const close = () => guest.call('spear_fd_ctl', fd, fdCommand.CLOSE, 0, 0);
    expect(await close()).toBe(0);
    expect(await isOpen(guest, fd)).toBe(false);
    expect(await close()).toBe(0);
    expect(await guest.call('cchat_close', fd)).toBe(0);
  });

  it('takes the descriptor out of every epoll set [fd.close]', async () => {
    const guest = await openGuest();
    const [closed, kept] = [await newSession(guest), await newSession(guest)];
    const sets = [await newEpoll(guest, [closed, 4], [kept, 4]), await newEpoll(guest, [closed, 4])];
    await guest.call('cchat_close', closed);
    expect(await epollWait(guest, sets[0] as number, 0)).toEqual([{ fd: kept, events: 4 }]);
    expect(await epollWait(guest, sets[1] as number, 0)).toEqual([]);
    expect(await guest.call('spear_epoll_ctl', sets[0] as number, 2, closed, 4)).toBe(EBADF);
  });

  it('a response cancels its request at the provider [fd.close]', async () => {
    const guest = await openGuest();
    const response = await pending(guest);
    await untilRequested(guest, 1);
    await guest.call('cchat_close', response);
    await until(() => guest.backend.aborted === 1, 'the abort');
  });

  it('a session cancels its request, and the response says so [fd.close]', async () => {
    const guest = await openGuest();
    const response = await pending(guest);
    await untilRequested(guest, 1);
    await guest.call('cchat_close', response - 1);
    await until(() => guest.backend.aborted === 1, 'the abort');
    expect(await guest.call('cchat_recv', response, ...guest.heap.out(8).args)).toBe(ECANCELED);
  });

  it('makes room under the limit', async () => {
    const guest = await openGuest({ limits: { max_fds: 2 } });
    const first = await guest.call('cchat_create');
    await guest.call('spear_epoll_create');
    expect(await guest.call('spear_epoll_create')).toBe(EMFILE);
    await guest.call('cchat_close', first);
    expect(await guest.call('spear_epoll_create')).toBeGreaterThan(first);
  });

  it('a response frees its session for the next send [fd.close]', async () => {
    const guest = await openGuest();
    const fd = await newSession(guest);
    await setNonblocking(guest, fd);
    const release = guest.backend.hold();
    await guest.call('cchat_close', await guest.call('cchat_send', fd, 0));
    release();
    expect(await guest.call('cchat_send', fd, 0)).toBeGreaterThan(fd);
  });
});

const untilRequested = (guest: TestGuest, count: number) =>
  until(() => guest.backend.requests.length === count, 'the request');
