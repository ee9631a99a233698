import { expect } from 'vitest';
import { eventually } from '../../../../agent/mcp/client/pool-samples.ts';
import { connectFakeClient, frame, readable, ready } from '../../../../support/stream-client.ts';
import type { TestGuest, TestGuestOptions } from '../../../../support/test-guest.ts';
import { badClose, badDescriptors, casesOf, type ErrnoCase } from './errno-case.ts';

const served: TestGuestOptions = { streams: true };
const IN = 1;
const HUP = 16;
const KIB_200 = 200 * 1024;

const open = (guest: TestGuest, streamId = 7, direction = 3) => guest.call('user_stream_open', streamId, direction);
const read = (guest: TestGuest, fd: number, room = 64) =>
  guest.call('user_stream_read', fd, ...guest.heap.out(room).args);
const write = (guest: TestGuest, fd: number, bytes: Uint8Array) =>
  guest.call('user_stream_write', fd, ...guest.text(bytes));

/** What the second gives. */
async function twice(first: () => Promise<number>, second = first): Promise<number> {
  await first();
  return second();
}

async function withoutClient(guest: TestGuest): Promise<number> {
  const fd = await open(guest);
  const { session } = connectFakeClient(guest.streams);
  session.receive(frame(7, ''));
  await readable(guest, fd);
  await read(guest, fd);
  session.gone();
  // The end of each direction is a message of its own.
  await eventually(async () => expect(await ready(guest, fd, IN)).toBe(IN | HUP));
  return fd;
}

export const streamErrnos: readonly ErrnoCase[] = [
  ...casesOf(
    'user_stream_open',
    ['EINVAL', 'the direction is 0', (guest) => open(guest, 1, 0)],
    ['EINVAL', 'the direction is 4', (guest) => open(guest, 1, 4)],
    ['ENOTCONN', 'the run has no client side', (guest) => open(guest, 1, 1)],
    ['EEXIST', 'the direction is open', (guest) => twice(() => open(guest, 7, 1)), served],
    [
      'EMFILE',
      'there is no room for descriptors',
      (guest) =>
        twice(
          () => open(guest, 1, 1),
          () => open(guest, 2, 1),
        ),
      { ...served, limits: { max_fds: 1 } },
    ],
    [
      'EMFILE',
      '64 streams are open',
      async (guest) => {
        for (let streamId = 0; streamId < 64; streamId++) await open(guest, streamId);
        return open(guest, 64);
      },
      served,
    ],
  ),
  ...badDescriptors('user_stream_read', 'sessions are of the wrong kind', read),
  ...casesOf(
    'user_stream_read',
    ['EBADF', 'the stream only writes', async (guest) => read(guest, await open(guest, 7, 2)), served],
    ['EAGAIN', 'no frame is there', async (guest) => read(guest, await open(guest)), served],
    ['EPIPE', 'the client disconnected', async (guest) => read(guest, await withoutClient(guest)), served],
    [
      'ENOSPC',
      'the buffer is smaller than the frame, which stays',
      async (guest) => {
        const fd = await open(guest);
        connectFakeClient(guest.streams).session.receive(frame(7, 'hello'));
        await readable(guest, fd);
        const before = await read(guest, fd, 36);
        const whole = await read(guest, fd, 37);
        return whole === 37 ? before : whole;
      },
      served,
    ],
  ),
  ...badDescriptors('user_stream_write', 'sessions are of the wrong kind', (guest, fd) =>
    write(guest, fd, frame(7, 'x')),
  ),
  ...casesOf(
    'user_stream_write',
    ['EBADF', 'the stream only reads', async (guest) => write(guest, await open(guest, 7, 1), frame(7, 'x')), served],
    ['EINVAL', 'it is no frame', async (guest) => write(guest, await open(guest), Buffer.from('SPST')), served],
    [
      'EINVAL',
      'the frame is of another stream',
      async (guest) => write(guest, await open(guest), frame(8, '')),
      served,
    ],
    [
      'EINVAL',
      'something follows the frame',
      async (guest) => write(guest, await open(guest), Buffer.concat([frame(7, ''), frame(7, '')])),
      served,
    ],
    [
      'EMSGSIZE',
      'it has more than 262144 bytes',
      async (guest) => write(guest, await open(guest), Buffer.alloc(262_145)),
      { ...served, pages: 16 },
    ],
    [
      'EPIPE',
      'the client disconnected',
      async (guest) => write(guest, await withoutClient(guest), frame(7, 'x')),
      served,
    ],
    [
      'EAGAIN',
      'the client takes nothing',
      async (guest) => {
        const fd = await open(guest);
        connectFakeClient(guest.streams).holds = true;
        const large = frame(7, Buffer.alloc(KIB_200));
        await write(guest, fd, large);
        await write(guest, fd, large);
        return write(guest, fd, large);
      },
      { ...served, pages: 64 },
    ],
  ),
  ...badClose('user_stream_close'),
  ...casesOf(
    'user_stream_ctl_open',
    ['ENOTCONN', 'the run has no client side', (guest) => guest.call('user_stream_ctl_open')],
    ['EEXIST', 'there is one', (guest) => twice(() => guest.call('user_stream_ctl_open')), served],
    [
      'EMFILE',
      'there is no room for descriptors',
      (guest) =>
        twice(
          () => open(guest),
          () => guest.call('user_stream_ctl_open'),
        ),
      { ...served, limits: { max_fds: 1 } },
    ],
  ),
  ...badDescriptors('user_stream_ctl_read', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('user_stream_ctl_read', fd, ...guest.heap.out(8).args),
  ),
  ...casesOf(
    'user_stream_ctl_read',
    [
      'EAGAIN',
      'nothing happened',
      async (guest) =>
        guest.call('user_stream_ctl_read', await guest.call('user_stream_ctl_open'), ...guest.heap.out(8).args),
      served,
    ],
    [
      'ENOSPC',
      'the buffer has less than 8 bytes',
      async (guest) => {
        const ctl = await guest.call('user_stream_ctl_open');
        connectFakeClient(guest.streams).session.receive(frame(7, ''));
        await readable(guest, ctl);
        return guest.call('user_stream_ctl_read', ctl, ...guest.heap.out(7).args);
      },
      served,
    ],
  ),
];
