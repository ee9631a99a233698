import { describe, expect, it } from 'vitest';
import {
  epollWait,
  newEpoll,
  newSession,
  recv,
  send,
  setNonblocking,
  untilReady,
} from '../../../support/chat-calls.ts';
import { hasPointers } from '../../../support/guest-binding.ts';
import type { TestGuest } from '../../../support/test-guest.ts';
import { useGuests } from '../../../support/use-guest.ts';
import { pending } from './errno-cases/situations.ts';

const [IN, OUT, ERR, HUP] = [1, 4, 8, 16];
const [ADD, MOD, DEL] = [1, 2, 3];
const openGuest = useGuests();

/** A non-blocking send, and how to let its answer come. */
async function startSend(guest: TestGuest): Promise<{ session: number; response: number; answer: () => void }> {
  const session = await newSession(guest);
  await setNonblocking(guest, session);
  const answer = guest.backend.hold();
  return { session, response: await send(guest, session), answer };
}

describe('spear_epoll_wait', () => {
  it('is level-triggered: it reports again until the state changes [epoll.level]', async () => {
    const guest = await openGuest();
    const response = await send(guest, await newSession(guest));
    const epfd = await newEpoll(guest, [response, IN]);
    for (let count = 0; count < 3; count++) {
      expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: response, events: IN }]);
    }
    await recv(guest, response);
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: response, events: IN }]);
    await guest.call('cchat_close', response);
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
  });

  it('reports by ascending fd, each once, whatever the order of ADD [epoll.order]', async () => {
    const guest = await openGuest();
    const fds: number[] = [];
    for (let count = 0; count < 5; count++) fds.push(await newSession(guest));
    const epfd = await newEpoll(guest, ...[...fds].reverse().map((fd): [number, number] => [fd, OUT]), [
      fds[2] as number,
      OUT,
    ]);
    expect((await epollWait(guest, epfd, 0)).map(({ fd }) => fd)).toEqual(fds);
  });

  if (hasPointers())
    it('reports as many as there is room for, the lowest first', async () => {
      const guest = await openGuest();
      const fds: number[] = [];
      for (let count = 0; count < 5; count++) fds.push(await newSession(guest));
      const epfd = await newEpoll(guest, ...fds.map((fd): [number, number] => [fd, OUT]));
      expect((await epollWait(guest, epfd, 0, 24)).map(({ fd }) => fd)).toEqual(fds.slice(0, 3));
      expect((await epollWait(guest, epfd, 0, 31)).map(({ fd }) => fd)).toEqual(fds.slice(0, 3));
      expect((await epollWait(guest, epfd, 0, 40)).map(({ fd }) => fd)).toEqual(fds);
    });

  it('reports at once what was added after it completed', async () => {
    const guest = await openGuest();
    const { response, answer } = await startSend(guest);
    answer();
    expect(await untilReady(guest, response)).toBe(IN);
    expect(await epollWait(guest, await newEpoll(guest, [response, IN]), 0)).toEqual([{ fd: response, events: IN }]);
  });

  it('wakes when a response comes, however long it would wait', async () => {
    const guest = await openGuest();
    const { response, answer } = await startSend(guest);
    const epfd = await newEpoll(guest, [response, IN]);
    const waiting = epollWait(guest, epfd, 600_000);
    answer();
    expect(await waiting).toEqual([{ fd: response, events: IN }]);
  });

  it('gives nothing when the time is up, and nothing at once for 0', async () => {
    const guest = await openGuest();
    const epfd = await newEpoll(guest, [await pending(guest), IN]);
    const started = performance.now();
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
    expect(await epollWait(guest, epfd, 30)).toEqual([]);
    expect(performance.now() - started).toBeGreaterThanOrEqual(29);
  });

  it('tells which of several responses are there', async () => {
    const guest = await openGuest();
    const early = await send(guest, await newSession(guest));
    const { response: late } = await startSend(guest);
    const epfd = await newEpoll(guest, [late, IN], [early, IN]);
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: early, events: IN }]);
  });
});

describe('what is reported', () => {
  it('is what was asked for, and HUP and ERR always [epoll.always]', async () => {
    const guest = await openGuest();
    const done = await send(guest, await newSession(guest));
    expect(await epollWait(guest, await newEpoll(guest, [done, OUT]), 0)).toEqual([]);

    const response = await pending(guest);
    const sets = [
      await newEpoll(guest, [response, 0]),
      await newEpoll(guest, [response, IN]),
      await newEpoll(guest, [response, HUP]),
    ];
    await guest.call('spear_fd_cancel', response);
    for (const epfd of sets) expect(await epollWait(guest, epfd, 0)).toEqual([{ fd: response, events: ERR | HUP }]);
  });

  it('of a session is OUT while it is not busy [epoll.session]', async () => {
    const guest = await openGuest();
    const { session, response, answer } = await startSend(guest);
    const epfd = await newEpoll(guest, [session, IN | OUT]);
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
    answer();
    await untilReady(guest, response);
    expect(await epollWait(guest, epfd, 0)).toEqual([{ fd: session, events: OUT }]);
  });

  it('follows MOD, a second ADD and DEL', async () => {
    const guest = await openGuest();
    const session = await newSession(guest);
    const epfd = await newEpoll(guest, [session, OUT]);
    expect(await epollWait(guest, epfd, 0)).toHaveLength(1);
    expect(await guest.call('spear_epoll_ctl', epfd, MOD, session, IN)).toBe(0);
    expect(await epollWait(guest, epfd, 0)).toHaveLength(0);
    expect(await guest.call('spear_epoll_ctl', epfd, ADD, session, OUT)).toBe(0);
    expect(await epollWait(guest, epfd, 0)).toHaveLength(1);
    expect(await guest.call('spear_epoll_ctl', epfd, DEL, session, 0)).toBe(0);
    expect(await epollWait(guest, epfd, 0)).toHaveLength(0);
  });

  it('is the same in several sets', async () => {
    const guest = await openGuest();
    const session = await newSession(guest);
    const sets = [await newEpoll(guest, [session, OUT]), await newEpoll(guest, [session, OUT])];
    await guest.call('spear_epoll_ctl', sets[0] as number, DEL, session, 0);
    expect(await epollWait(guest, sets[1] as number, 0)).toEqual([{ fd: session, events: OUT }]);
  });
});
