import { describe, expect, it } from 'vitest';
import {
  contentOf,
  fdCommand,
  fdGet,
  newEpoll,
  newSession,
  recvJson,
  say,
  send,
  setNonblocking,
  untilReady,
} from '../../../support/chat-calls.ts';
import { until } from '../../../support/until.ts';
import { useGuests } from '../../../support/use-guest.ts';
import { pending } from './errno-cases/situations.ts';

const [EAGAIN, EBUSY, ECANCELED] = [-11, -16, -125];
const openGuest = useGuests();

describe('a non-blocking session', () => {
  it('gives its response fd before the answer is there, and the fd inherits the flag [send.nonblocking]', async () => {
    const guest = await openGuest();
    const session = await newSession(guest);
    await setNonblocking(guest, session);
    const answer = guest.backend.hold();
    const response = await send(guest, session);
    expect(await fdGet(guest, response, fdCommand.GET_FLAGS)).toBe('{"flags":["O_NONBLOCK"]}');
    expect(await guest.call('cchat_recv', response, ...guest.heap.out(8).args)).toBe(EAGAIN);
    answer();
    await untilReady(guest, response);
    expect(contentOf(await recvJson(guest, response))).toBe('hello');
  });

  it('is busy until the answer is there, and can send again then [send.busy]', async () => {
    const guest = await openGuest();
    const session = await newSession(guest);
    await setNonblocking(guest, session);
    const answer = guest.backend.hold();
    const first = await send(guest, session);
    expect(await guest.call('cchat_send', session, 0)).toBe(EBUSY);
    answer();
    await untilReady(guest, first);
    const second = await send(guest, session);
    await untilReady(guest, second);
    expect(guest.backend.requests.map(({ messages }) => messages.length)).toEqual([1, 2]);
  });

  it('takes what is written during a send into the next one [send.write-during]', async () => {
    const guest = await openGuest();
    const session = await newSession(guest, 'first');
    await setNonblocking(guest, session);
    const answer = guest.backend.hold();
    const response = await send(guest, session);
    expect(await say(guest, session, 'user', 'second')).toBe(0);
    answer();
    await untilReady(guest, response);
    await untilReady(guest, await send(guest, session));
    expect(guest.backend.requests.map(({ messages }) => messages.map(({ content }) => content))).toEqual([
      ['first'],
      ['first', 'hello', 'second'],
    ]);
  });

  it('can poll without ever waiting: the next look takes in what has come [send.poll]', async () => {
    const guest = await openGuest();
    const session = await newSession(guest);
    await setNonblocking(guest, session);
    const answer = guest.backend.hold();
    const response = await send(guest, session);
    answer();
    // Turns of the host's side only: the guest's own port is read by the calls themselves.
    await until(() => guest.service.totals.sends > 0, 'the host');
    const epfd = await newEpoll(guest, [response, 1]);
    expect(await guest.call('spear_epoll_wait', epfd, ...guest.heap.out(8).args, 0)).toBe(1);
  });

  it('may be made blocking again [send.nonblocking]', async () => {
    const guest = await openGuest();
    const session = await newSession(guest);
    await setNonblocking(guest, session);
    const clear = guest.heap.arg('{"clear":["O_NONBLOCK"]}');
    expect(await guest.call('spear_fd_ctl', session, fdCommand.SET_FLAGS, ...clear)).toBe(0);
    expect(contentOf(await recvJson(guest, await send(guest, session)))).toBe('hello');
  });
});

describe('cancel', () => {
  it('makes a pending response ERR|HUP, its body ECANCELED, its session free, and stops the provider [fd.cancel]', async () => {
    const guest = await openGuest();
    const response = await pending(guest);
    await until(() => guest.backend.requests.length > 0, 'the host');
    expect(await guest.call('spear_fd_cancel', response)).toBe(0);
    expect(await fdGet(guest, response, fdCommand.GET_STATUS)).toBe(
      '{"closed":false,"flags":["O_NONBLOCK"],"kind":"ChatResponse","poll_mask":["EPOLLERR","EPOLLHUP"]}',
    );
    expect(await guest.call('cchat_recv', response, ...guest.heap.out(8).args)).toBe(ECANCELED);
    expect(await fdGet(guest, response - 1, fdCommand.GET_STATUS)).toContain('EPOLLOUT');
    await until(() => guest.backend.aborted > 0, 'the host');
  });

  it('leaves a finished response as it is [fd.cancel]', async () => {
    const guest = await openGuest();
    const response = await send(guest, await newSession(guest));
    expect(await guest.call('spear_fd_cancel', response)).toBe(0);
    expect(contentOf(await recvJson(guest, response))).toBe('hello');
  });

  it('drops the response of a canceled send without waking the guest [fd.cancel]', async () => {
    const guest = await openGuest({ turns: [{ reply: { content: 'first' } }, { reply: { content: 'second' } }] });
    const session = await newSession(guest);
    await setNonblocking(guest, session);
    const first = await send(guest, session);
    // The answer is on its way when the guest cancels.
    await until(() => guest.service.totals.sends > 0, 'the host');
    await guest.call('spear_fd_cancel', first);
    const second = await send(guest, session);
    expect(await untilReady(guest, second)).toBe(1);
    expect(contentOf(await recvJson(guest, second))).toBe('second');
  });

  it('lets the next send begin when the canceled one has ended at the host [fd.cancel]', async () => {
    const guest = await openGuest();
    const session = await newSession(guest, 'one');
    await setNonblocking(guest, session);
    const answer = guest.backend.hold();
    const first = await send(guest, session);
    await until(() => guest.backend.requests.length > 0, 'the host');
    await guest.call('spear_fd_cancel', first);
    await until(() => guest.backend.aborted > 0, 'the host');
    await say(guest, session, 'user', 'two');
    answer();
    const second = await send(guest, session);
    await untilReady(guest, second);
    expect(guest.backend.requests.at(-1)?.messages).toEqual([
      { role: 'user', content: 'one' },
      { role: 'user', content: 'two' },
    ]);
  });
});
