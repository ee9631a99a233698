import { afterEach, describe, expect, it } from 'vitest';
import { type Call, type CallName, calls } from '../../../../src/runtime/abi/calls.ts';
import { features } from '../../../../src/runtime/guest/hostcalls/system.ts';
import { eventually } from '../../../agent/mcp/client/pool-samples.ts';
import {
  contentOf,
  fdCommand,
  fdGet,
  GET_METRICS,
  HAND_BACK,
  METRICS,
  newEpoll,
  newSession,
  readToEnd,
  recvJson,
  SET_PARAM,
  STREAM,
  say,
  send,
  textOf,
} from '../../../support/chat-calls.ts';
import { connectFakeClient, frame, readable, readEvent, readFrame } from '../../../support/stream-client.ts';
import { TestGuest, type TestGuestOptions } from '../../../support/test-guest.ts';
import { callsTool, handedBack, pending } from './errno-cases/situations.ts';

type Case = readonly [
  call: CallName,
  does: string,
  run: (guest: TestGuest) => Promise<void>,
  options?: TestGuestOptions,
];

const closes = (call: CallName): Case => [
  call,
  'closes any kind, and again without complaint',
  async (guest) => {
    const session = await newSession(guest);
    for (const fd of [await send(guest, session), session, await newEpoll(guest)]) {
      expect(await guest.call(call, fd)).toBe(0);
      expect(await guest.call('spear_fd_cancel', fd)).toBe(-9);
      expect(await guest.call(call, fd)).toBe(0);
    }
  },
];

const cases: readonly Case[] = [
  [
    'spear_abi_version',
    'gives major << 16 | minor',
    async (guest) => expect(await guest.call('spear_abi_version')).toBe(0x0001_0001),
  ],
  [
    'spear_feature',
    'gives 1 for what is there and 0 for anything else',
    async (guest) => {
      for (const name of features) expect(await guest.call('spear_feature', ...guest.text(name))).toBe(1);
      for (const name of ['', 'cchatt', 'constructor', '__proto__', 'x'.repeat(5000)]) {
        expect(await guest.call('spear_feature', ...guest.text(name))).toBe(0);
      }
    },
  ],
  [
    'time_now_ms',
    'gives the time of day in milliseconds',
    async (guest) => {
      const before = BigInt(Date.now());
      const now = (await guest.enter('time_now_ms')) as bigint;
      expect(now).toBeGreaterThanOrEqual(before);
      expect(now).toBeLessThanOrEqual(BigInt(Date.now()));
    },
  ],
  [
    'wall_time_s',
    'gives the time of day in seconds',
    async (guest) => {
      const before = BigInt(Math.floor(Date.now() / 1000));
      const now = (await guest.enter('wall_time_s')) as bigint;
      expect(now).toBeGreaterThanOrEqual(before);
      expect(now).toBeLessThanOrEqual(before + 60n);
    },
  ],
  [
    'random_i64',
    'gives 64 bits that differ from call to call',
    async (guest) => {
      const drawn = new Set<unknown>();
      let high = 0n;
      let low = -1n;
      for (let count = 0; count < 200; count++) {
        const value = (await guest.enter('random_i64')) as bigint;
        drawn.add(value);
        high |= value;
        low &= value;
      }
      expect(drawn.size).toBe(200);
      expect(high).toBe(-1n);
      expect(low).toBe(0n);
    },
  ],
  [
    'sleep_ms',
    'comes back when the time is up, and at once for zero and less',
    async (guest) => {
      const started = performance.now();
      expect(await guest.enter('sleep_ms', 20)).toBeUndefined();
      expect(performance.now() - started).toBeGreaterThanOrEqual(19);
      for (const ms of [0, -1, -2_147_483_648]) expect(await guest.enter('sleep_ms', ms)).toBeUndefined();
    },
  ],
  [
    'log',
    'writes a line of at most 16384 bytes',
    async (guest) => {
      expect(await guest.call('log', 2, ...guest.text('hello'))).toBe(0);
      expect(await guest.call('log', 2, ...guest.text('x'.repeat(16_384)))).toBe(0);
      expect(guest.output).toEqual([
        ['stdout', 'hello\n'],
        ['stdout', `${'x'.repeat(16_384)}\n`],
      ]);
    },
  ],
  [
    'cchat_create',
    'gives a ChatSession',
    async (guest) => {
      const fd = await guest.call('cchat_create');
      expect(await fdGet(guest, fd, fdCommand.GET_KIND)).toBe('{"kind":"ChatSession"}');
    },
  ],
  [
    'cchat_write_msg',
    'appends messages in their order, whatever their role and content',
    async (guest) => {
      const fd = await guest.call('cchat_create');
      expect(await say(guest, fd, 'system', 'be brief')).toBe(0);
      expect(await say(guest, fd, 'user', '')).toBe(0);
      expect(await guest.call('cchat_write_msg', fd, ...guest.text('user'), ...guest.text(Buffer.of(0xff, 0x41)))).toBe(
        0,
      );
      await send(guest, fd);
      expect(guest.backend.requests[0]?.messages).toEqual([
        { role: 'system', content: 'be brief' },
        { role: 'user', content: '' },
        { role: 'user', content: '\ufffdA' },
      ]);
    },
  ],
  [
    'cchat_write_fn',
    'registers a tool object or its bare function object; the same name replaces',
    async (guest) => {
      const fd = await newSession(guest);
      const tool = { type: 'function', function: { name: 'sum', strict: true } };
      const write = (json: unknown) => guest.call('cchat_write_fn', fd, -1, ...guest.text(JSON.stringify(json)));
      expect(await write({ name: 'sum' })).toBe(0);
      expect(await write({ name: 'other', parameters: { type: 'object' } })).toBe(0);
      expect(await write(tool)).toBe(0);
      await send(guest, fd);
      expect(guest.backend.requests[0]?.tools).toEqual([
        tool,
        { type: 'function', function: { name: 'other', parameters: { type: 'object' } } },
      ]);
    },
  ],
  [
    'cchat_write_tool_result',
    'answers a handed-back call',
    async (guest) => {
      const fd = await handedBack(guest);
      expect(await guest.call('cchat_write_tool_result', fd, ...guest.text('call_1'), ...guest.text('3'))).toBe(0);
      await send(guest, fd, HAND_BACK);
      expect(guest.backend.requests[1]?.messages.at(-1)).toEqual({
        role: 'tool',
        tool_call_id: 'call_1',
        content: '3',
      });
    },
    { turns: callsTool('sum') },
  ],
  [
    'cchat_ctl',
    'SET_PARAM gives 0 and reaches the provider, GET_METRICS gives JSON',
    async (guest) => {
      const fd = await newSession(guest);
      const param = guest.heap.arg('{"key":"temperature","value":0.5}');
      expect(await guest.call('cchat_ctl', fd, SET_PARAM, ...param)).toBe(0);
      const response = await send(guest, fd, METRICS);
      expect(guest.backend.requests[0]?.temperature).toBe(0.5);
      const out = guest.heap.out(1024);
      expect(await guest.call('cchat_ctl', response, GET_METRICS, ...out.args)).toBe(out.length);
      expect(JSON.parse(out.text())).toMatchObject({ iterations: 1, tool_calls: 0 });
    },
  ],
  [
    'cchat_send',
    'gives a ChatResponse',
    async (guest) => {
      const response = await send(guest, await newSession(guest));
      expect(await fdGet(guest, response, fdCommand.GET_KIND)).toBe('{"kind":"ChatResponse"}');
    },
  ],
  [
    'cchat_recv',
    'gives the whole body on every call',
    async (guest) => {
      const response = await send(guest, await newSession(guest));
      const first = await recvJson(guest, response);
      expect(contentOf(first)).toBe('hello');
      expect(await recvJson(guest, response)).toEqual(first);
    },
  ],
  [
    'cchat_read',
    'gives the events of a streamed send, then nothing',
    async (guest) => {
      const response = await send(guest, await newSession(guest), STREAM);
      expect(textOf(await readToEnd(guest, response))).toBe('hello');
      expect(await guest.call('cchat_read', response, ...guest.heap.out(64).args)).toBe(0);
    },
  ],
  closes('cchat_close'),
  closes('mcp_close'),
  [
    'spear_epoll_create',
    'gives an Epoll',
    async (guest) => expect(await fdGet(guest, await newEpoll(guest), fdCommand.GET_KIND)).toBe('{"kind":"Epoll"}'),
  ],
  [
    'spear_epoll_ctl',
    'adds, changes and takes out',
    async (guest) => {
      const epfd = await newEpoll(guest);
      const fd = await newSession(guest);
      for (const op of [1, 1, 2, 3]) expect(await guest.call('spear_epoll_ctl', epfd, op, fd, 4)).toBe(0);
    },
  ],
  [
    'spear_epoll_wait',
    'gives the number of records',
    async (guest) => {
      const fd = await newSession(guest);
      const out = guest.heap.out(64);
      expect(await guest.call('spear_epoll_wait', await newEpoll(guest, [fd, 4]), ...out.args, -1)).toBe(1);
      expect(out.length).toBe(8);
      expect([out.bytes().readInt32LE(0), out.bytes().readInt32LE(4)]).toEqual([fd, 4]);
    },
  ],
  closes('spear_epoll_close'),
  [
    'spear_fd_ctl',
    'sets and gets flags, gives kind, status and metrics, and closes',
    async (guest) => {
      const fd = await newSession(guest);
      const set = guest.heap.arg('{"set":["O_NONBLOCK"],"clear":[]}');
      expect(await guest.call('spear_fd_ctl', fd, fdCommand.SET_FLAGS, ...set)).toBe(0);
      expect(await fdGet(guest, fd, fdCommand.GET_FLAGS)).toBe('{"flags":["O_NONBLOCK"]}');
      const clear = guest.heap.arg('{"clear":["O_NONBLOCK"]}');
      expect(await guest.call('spear_fd_ctl', fd, fdCommand.SET_FLAGS, ...clear)).toBe(0);
      expect(await fdGet(guest, fd, fdCommand.GET_FLAGS)).toBe('{"flags":[]}');
      expect(await fdGet(guest, fd, fdCommand.GET_KIND)).toBe('{"kind":"ChatSession"}');
      expect(await fdGet(guest, fd, fdCommand.GET_STATUS)).toBe(
        '{"closed":false,"flags":[],"kind":"ChatSession","poll_mask":["EPOLLOUT"]}',
      );
      const response = await send(guest, fd);
      expect(JSON.parse(await fdGet(guest, response, fdCommand.GET_METRICS))).toMatchObject({ iterations: 1 });
      expect(await guest.call('spear_fd_ctl', fd, fdCommand.CLOSE, 0, 0)).toBe(0);
      expect(await guest.call('cchat_send', fd, 0)).toBe(-9);
    },
  ],
  [
    'spear_fd_cancel',
    'cancels what is pending; nothing pending is fine',
    async (guest) => {
      const response = await pending(guest);
      expect(await guest.call('spear_fd_cancel', response)).toBe(0);
      expect(await guest.call('spear_fd_cancel', response)).toBe(0);
      expect(await guest.call('spear_fd_cancel', await newEpoll(guest))).toBe(0);
    },
  ],
  [
    'user_stream_open',
    'gives a descriptor of the stream in its direction',
    async (guest) => {
      expect(await guest.call('user_stream_open', 7, 1)).toBe(1000);
      expect(await guest.call('user_stream_open', 7, 2)).toBe(1001);
      expect(await fdGet(guest, 1001, fdCommand.GET_KIND)).toBe('{"kind":"UserStream"}');
    },
    { streams: true },
  ],
  [
    'user_stream_read',
    'gives one frame after the other, as they were sent',
    async (guest) => {
      const fd = await guest.call('user_stream_open', 7, 1);
      const client = connectFakeClient(guest.streams);
      const frames = [frame(7, 'one', 1), frame(7, '\u0000\u00ff two', 2)];
      for (const sent of frames) client.session.receive(sent);
      await readable(guest, fd);
      for (const sent of frames) expect(await readFrame(guest, fd)).toEqual(Buffer.from(sent));
    },
    { streams: true },
  ],
  [
    'user_stream_write',
    'sends one frame to the client',
    async (guest) => {
      const fd = await guest.call('user_stream_open', 7, 2);
      const client = connectFakeClient(guest.streams);
      const sent = frame(7, 'bytes that are no text: \u0000', 1);
      expect(await guest.call('user_stream_write', fd, ...guest.text(sent))).toBe(0);
      await eventually(() => expect(client.frames).toEqual([sent]));
    },
    { streams: true },
  ],
  closes('user_stream_close'),
  [
    'user_stream_ctl_open',
    'gives a descriptor of events',
    async (guest) => {
      const fd = await guest.call('user_stream_ctl_open');
      expect(await fdGet(guest, fd, fdCommand.GET_KIND)).toBe('{"kind":"UserStreamCtl"}');
    },
    { streams: true },
  ],
  [
    'user_stream_ctl_read',
    'tells which stream got a client, and when that one has gone',
    async (guest) => {
      const ctl = await guest.call('user_stream_ctl_open');
      const client = connectFakeClient(guest.streams);
      client.session.receive(frame(9, 'hello', 1));
      await readable(guest, ctl);
      expect(await readEvent(guest, ctl)).toEqual([9, 1]);
      client.session.gone();
      await readable(guest, ctl);
      expect(await readEvent(guest, ctl)).toEqual([9, 2]);
    },
    { streams: true },
  ],
];

let guest: TestGuest | undefined;
afterEach(async () => {
  await guest?.close();
  guest = undefined;
});

describe('each call does what its row says', () => {
  for (const [call, does, run, options] of cases) {
    it(`${call} ${does} [abi.calls]`, async () => {
      guest = await TestGuest.open(options);
      await run(guest);
    });
  }

  it('no call that can succeed was left out [abi.calls]', () => {
    const tried = new Set<string>(cases.map(([call]) => call));
    const onlyFail = ({ support }: Call) => support === 'absent';
    const needServers = ({ name }: Call) => name.startsWith('mcp_') && name !== 'mcp_close';
    const left = (calls as readonly Call[]).filter(
      (row) => !onlyFail(row) && !needServers(row) && !tried.has(row.name),
    );
    expect(left.map(({ name }) => name)).toEqual([]);
  });
});
