import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../../src/agent/chat/backends/script-schema.ts';
import {
  contentOf,
  epollWait,
  fdCommand,
  fdGet,
  HAND_BACK,
  newEpoll,
  newSession,
  readEvents,
  readToEnd,
  recv,
  recvJson,
  STREAM,
  send,
  setNonblocking,
  setParam,
  textOf,
  writeTool,
} from '../../../support/chat-calls.ts';
import { hasPointers } from '../../../support/guest-binding.ts';
import { until } from '../../../support/until.ts';
import { useGuests } from '../../../support/use-guest.ts';

const [EAGAIN, EBUSY, ENOSPC, ECANCELED] = [-11, -16, -28, -125];
const IN = 1;
const openGuest = useGuests();

const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
const sentence: readonly ScriptTurn[] = [{ reply: { content: ' one two\nthree ', usage }, repeat: true }];

describe('a streamed send', () => {
  it('returns at once, gives events in order and then 0 bytes for ever [stream.read]', async () => {
    const guest = await openGuest({ turns: sentence });
    const answer = guest.backend.hold();
    const response = await send(guest, await newSession(guest), STREAM);
    expect(await fdGet(guest, response, fdCommand.GET_FLAGS)).toBe('{"flags":[]}');
    answer();
    expect(await readToEnd(guest, response)).toEqual([
      { type: 'text', text: ' ' },
      { type: 'text', text: 'one ' },
      { type: 'text', text: 'two\n' },
      { type: 'text', text: 'three ' },
      { type: 'usage', usage },
      { type: 'end', finish_reason: 'stop' },
    ]);
    expect(await readEvents(guest, response)).toEqual([]);
  });

  it('writes its events as compact lines with sorted keys [stream.read]', async () => {
    const guest = await openGuest({ turns: [{ reply: { content: 'hi' } }] });
    const response = await send(guest, await newSession(guest), STREAM);
    const out = guest.heap.out(1024);
    await guest.call('cchat_read', response, ...out.args);
    expect(out.text().split('\n')[0]).toBe('{"text":"hi","type":"text"}');
  });

  it('has the body of a send that is not streamed, byte for byte [stream.body]', async () => {
    const guest = await openGuest({ turns: sentence });
    const whole = await recvJson(guest, await send(guest, await newSession(guest)));
    const response = await send(guest, await newSession(guest), STREAM);
    await readToEnd(guest, response);
    expect(await recv(guest, response)).toBe(JSON.stringify({ ...whole, id: 'scripted-2' }));
    expect(await recv(guest, response)).toContain('"_spear":{"backend":"scripted"');
  });

  it('returns EAGAIN from cchat_recv until its end, also if no event was read [stream.body]', async () => {
    const guest = await openGuest();
    const answer = guest.backend.hold();
    const session = await newSession(guest);
    const response = await send(guest, session, STREAM);
    expect(await guest.call('cchat_recv', response, ...guest.heap.out(64).args)).toBe(EAGAIN);
    expect(await guest.call('cchat_send', session, 0)).toBe(EBUSY);
    answer();
    await until(() => !guest.state.link.unanswered, 'the answer');
    expect(contentOf(await recvJson(guest, response))).toBe('hello');
    expect(textOf(await readToEnd(guest, response))).toBe('hello');
  });

  it('gives EAGAIN with O_NONBLOCK while nothing is there, and reports IN when something is [stream.ready]', async () => {
    const guest = await openGuest();
    const session = await newSession(guest);
    await setNonblocking(guest, session);
    const answer = guest.backend.hold();
    const response = await send(guest, session, STREAM);
    const epfd = await newEpoll(guest, [response, IN]);
    expect(await guest.call('cchat_read', response, ...guest.heap.out(64).args)).toBe(EAGAIN);
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
    answer();
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: response, events: IN }]);
    const events = await readToEnd(guest, response);
    expect(events.at(-1)).toEqual({ type: 'end', finish_reason: 'stop' });
    expect(await epollWait(guest, epfd, 0)).toEqual([{ fd: response, events: IN }]); // the end is there to be read
  });

  it('hands calls back like any other send, reports them as events, and continues [stream.tools]', async () => {
    const guest = await openGuest({
      turns: [
        {
          when: { role: 'user' },
          reply: { content: 'Let me see.', tool_calls: [{ id: 'a', name: 'clock', arguments: {} }] },
        },
        { when: { tool_call_id: 'a', content: 'noon' }, reply: { content: 'It is noon.' } },
      ],
    });
    const session = await newSession(guest);
    await writeTool(guest, session, 'clock', -1);
    const first = await send(guest, session, HAND_BACK | STREAM);
    const told = await readToEnd(guest, first);
    expect(textOf(told)).toBe('Let me see.');
    expect(told.filter(({ type }) => type === 'tool_start')).toEqual([{ type: 'tool_start', id: 'a', name: 'clock' }]);
    expect(told.at(-1)).toEqual({ type: 'end', finish_reason: 'tool_calls' });
    expect(await recvJson(guest, first)).toMatchObject({
      _spear: { pending_tool_calls: [{ id: 'a', name: 'clock', arguments: '{}' }] },
    });
    expect(await guest.call('cchat_write_tool_result', session, ...guest.text('a'), ...guest.text('noon'))).toBe(0);
    const second = await send(guest, session, HAND_BACK | STREAM);
    expect(textOf(await readToEnd(guest, second))).toBe('It is noon.');
  });

  it('tells an error as an event and as a body [stream.errors]', async () => {
    const guest = await openGuest({ turns: [{ error: { status: 400, message: 'no' } }] });
    const response = await send(guest, await newSession(guest), STREAM);
    const [error, end, ...more] = await readToEnd(guest, response);
    expect(error).toMatchObject({ type: 'error', error: { code: 'invalid_request', status: 400 } });
    expect(end).toEqual({ type: 'end', finish_reason: 'error' });
    expect(more).toEqual([]);
    expect(await recvJson(guest, response)).toEqual({ error: error?.error });
  });

  it('ends at its deadline with an error, also while a read waits [stream.errors]', async () => {
    const guest = await openGuest();
    guest.backend.hold();
    const session = await newSession(guest);
    await setParam(guest, session, 'timeout_ms', 20);
    const events = await readToEnd(guest, await send(guest, session, STREAM));
    expect(events).toMatchObject([{ type: 'error', error: { code: 'timeout' } }, { type: 'end' }]);
  });

  it('ends the request when it is canceled, and leaves nothing behind [stream.cancel]', async () => {
    const guest = await openGuest();
    guest.backend.hold();
    const session = await newSession(guest);
    const response = await send(guest, session, STREAM);
    await until(() => guest.backend.requests.length === 1, 'the request');
    expect(await guest.call('spear_fd_cancel', response)).toBe(0);
    expect(await guest.call('cchat_read', response, ...guest.heap.out(64).args)).toBe(ECANCELED);
    await until(() => guest.backend.aborted === 1, 'the abort');
    const other = await send(guest, session, STREAM);
    await until(() => guest.backend.requests.length === 2, 'the next request');
    expect(await guest.call('cchat_close', other)).toBe(0);
    await until(() => guest.backend.aborted === 2 && guest.state.link.unanswered === 0, 'the host to let go');
    expect(guest.state.answerBytes).toBe(0);
  });

  it('counts events that were not read as answers, until they are read or closed [stream.read]', async () => {
    const guest = await openGuest({ turns: sentence });
    const [read, closed] = [
      await send(guest, await newSession(guest), STREAM),
      await send(guest, await newSession(guest), STREAM),
    ];
    await until(() => guest.state.link.unanswered === 0, 'both answers');
    const bodies = Buffer.byteLength(await recv(guest, read)) + Buffer.byteLength(await recv(guest, closed));
    expect(guest.state.answerBytes).toBeGreaterThan(bodies);
    await readToEnd(guest, read);
    await guest.call('cchat_close', closed);
    await guest.call('cchat_close', read);
    expect(guest.state.answerBytes).toBe(0);
  });

  it('is there: spear_feature says so [stream.feature]', async () => {
    const guest = await openGuest();
    expect(await guest.call('spear_feature', ...guest.text('cchat.stream'))).toBe(1);
  });

  // A component has no buffers that could be too small.
  if (hasPointers())
    it('gives whole lines only, and keeps one that does not fit [stream.read]', async () => {
      const guest = await openGuest({ turns: [{ reply: { content: 'aa bb' } }] });
      const response = await send(guest, await newSession(guest), STREAM);
      await until(() => guest.state.link.unanswered === 0, 'the answer');
      const line = '{"text":"aa ","type":"text"}\n';
      const out = guest.heap.out(2 * line.length - 2);
      expect(await guest.call('cchat_read', response, ...out.offer(line.length - 1).args)).toBe(ENOSPC);
      expect(out.length).toBe(line.length);
      expect(await guest.call('cchat_read', response, ...out.offer(0).args)).toBe(ENOSPC);
      expect(await guest.call('cchat_read', response, ...out.offer(2 * line.length - 2).args)).toBe(line.length);
      expect(out.text()).toBe(line);
      expect(textOf(await readToEnd(guest, response))).toBe('bb');
    });
});
