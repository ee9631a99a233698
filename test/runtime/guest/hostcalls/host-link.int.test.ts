import { MessageChannel, MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { ReplayLog } from '../../../../src/runtime/durable/guest/replay-log.ts';
import { WaitPoint } from '../../../../src/runtime/guest/descriptors/readiness.ts';
import { HostLink, ThreadPort } from '../../../../src/runtime/guest/hostcalls/host-link.ts';
import { parseEvents, type ReplayEvent } from '../../../../src/runtime/port/journal-events.ts';
import { type HostReply, isBatch } from '../../../../src/runtime/port/port.ts';
import { newSession, send, setNonblocking } from '../../../support/chat-calls.ts';
import { linkTo } from '../../../support/core-imports.ts';
import { until } from '../../../support/until.ts';
import { useGuests } from '../../../support/use-guest.ts';

const openGuest = useGuests();

function open() {
  const { port1, port2 } = new MessageChannel();
  onTestFinished(() => port1.close());
  const link = linkTo(port1, new WaitPoint());
  /** The messages of each post. */
  const posted = () => {
    const found: unknown[][][] = [];
    for (let next = receiveMessageOnPort(port2); next; next = receiveMessageOnPort(port2)) {
      found.push(isBatch(next.message) ? (next.message[0] as unknown[][]) : [next.message]);
    }
    return found.map((messages) => messages.map(([, call, , op, about]) => [call, op, about]));
  };
  return { link, host: port2, posted };
}

describe('the guest’s end of the port', () => {
  it('says what can wait right before the next message, in one post with it, and by itself nothing', () => {
    const { link, posted } = open();
    link.sendLater(['close_session', 1000]);
    link.sendLater(['close_session', 1001]);
    expect([posted(), link.unanswered]).toEqual([[], 0]);
    link.send(0, ['notice', 'text']);
    link.send(0, ['notice', 'more']);
    expect(posted()).toEqual([
      [
        [0, 'close_session', 1000],
        [0, 'close_session', 1001],
        [0, 'notice', 'text'],
      ],
      [[0, 'notice', 'more']],
    ]);
    link.sendLater(['close_session', 1002]);
    link.call(['mcp_open', 'fs'], () => {});
    expect(posted()).toEqual([
      [
        [0, 'close_session', 1002],
        [1, 'mcp_open', 'fs'],
      ],
    ]);
  });

  it.each([
    ['while it waits', async (told: unknown[]) => until(() => told.length === 3, 'the replies')],
    ['when it looks', async (_told: unknown[], link: HostLink) => link.drain()],
  ])('takes replies one by one and together, %s', async (_how, take) => {
    const { link, host } = open();
    const told: unknown[] = [];
    const settled: number[] = [];
    const receive = (reply: HostReply) => told.push(reply);
    const calls = [1, 2, 3].map(() => link.call(['mcp_open', 'fs'], receive, () => settled.push(link.unanswered)));
    const reply = (call: number | undefined) => [0, call, 'done', null, `${call}`, '{}'];
    host.postMessage(reply(calls[0]));
    host.postMessage([[reply(calls[1]), reply(calls[2])]]);
    await take(told, link);
    expect(told).toEqual(calls.map((call) => ['done', null, `${call}`, '{}']));
    expect([settled, link.unanswered]).toEqual([[2, 1, 0], 0]);
  });
});

it('what came while a replayLog played is taken before what comes in the moment after', async () => {
  const { port1, port2 } = new MessageChannel();
  onTestFinished(() => port2.close());
  const port = new ThreadPort(port1);
  const linkWith = (events: readonly ReplayEvent[]) =>
    new HostLink(port, 0, new WaitPoint(), new ReplayLog({ events, continuesLive: true, wakesAtStart: false }));
  linkWith([]).subscribe(['stream_watch'], () => {});
  const [written] = (receiveMessageOnPort(port2) as { message: [string] }).message;
  const link = linkWith(parseEvents(written).map((event) => ({ ...event, message: null })));
  const told: unknown[] = [];
  link.receive([0, 1, 'stream_event', 1, 1]);
  // The last that the replayLog has to play.
  link.subscribe(['stream_watch'], (reply) => told.push(reply[1]));
  link.receive([0, 1, 'stream_event', 2, 1]);
  await until(() => told.length === 2, 'both');
  expect(told).toEqual([1, 2]);
});

describe('a session that is closed', () => {
  it('is sent to the host with the next message if it has no call in flight, and does not count meanwhile', async () => {
    const guest = await openGuest({ limits: { max_sessions: 1 } });
    const posted = vi.spyOn(MessagePort.prototype, 'postMessage');
    onTestFinished(() => posted.mockRestore());
    for (const [before, content] of ['one', 'two', 'three'].entries()) {
      const fd = await newSession(guest, content);
      await send(guest, fd);
      await guest.call('cchat_close', fd);
      // A send, which brings the end of the one before, and its answer: nothing besides.
      expect(posted).toHaveBeenCalledTimes(2 * (before + 1));
      expect([guest.state.chatBytes, guest.state.closingSessions, guest.state.link.unanswered]).toEqual([0, 0, 0]);
    }
    // The host released each session before the next: its id is the descriptor, and none was sent twice.
    expect(guest.backend.requests.map(({ messages }) => messages.length)).toEqual([1, 1, 1]);
  });

  it('counts until its canceled send has unwound, also when another word of the host came since', async () => {
    const guest = await openGuest();
    guest.backend.hold();
    const fd = await newSession(guest, 'one');
    await setNonblocking(guest, fd);
    const response = await guest.call('cchat_send', fd, 0);
    await guest.call('spear_fd_cancel', response);
    await guest.call('cchat_close', fd);
    expect([guest.state.chatBytes > 0, guest.state.closingSessions]).toEqual([true, 1]);
    await until(() => guest.state.link.unanswered === 0, 'the host to let go');
    expect([guest.state.chatBytes, guest.state.closingSessions]).toEqual([0, 0]);
  });
});
