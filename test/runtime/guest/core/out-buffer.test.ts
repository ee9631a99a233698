import { describe, expect, it } from 'vitest';
import type { CallName } from '../../../../src/runtime/abi/calls.ts';
import { fdCommand, GET_METRICS, newEpoll, newSession, send } from '../../../support/chat-calls.ts';
import type { TestGuest } from '../../../support/test-guest.ts';
import { useGuests } from '../../../support/use-guest.ts';

const ENOSPC = -28;
const openGuest = useGuests();

/** Every call that fills an out-buffer, up to the buffer itself. */
const givers: readonly [call: CallName, name: string, before: (guest: TestGuest) => Promise<number[]>][] = [
  ['cchat_recv', 'cchat_recv', async (guest) => [await response(guest)]],
  ['cchat_ctl', 'cchat_ctl GET_METRICS', async (guest) => [await response(guest), GET_METRICS]],
  ['spear_fd_ctl', 'spear_fd_ctl GET_FLAGS', async (guest) => [await response(guest), fdCommand.GET_FLAGS]],
  ['spear_fd_ctl', 'spear_fd_ctl GET_KIND', async (guest) => [await response(guest), fdCommand.GET_KIND]],
  ['spear_fd_ctl', 'spear_fd_ctl GET_STATUS', async (guest) => [await response(guest), fdCommand.GET_STATUS]],
  ['spear_fd_ctl', 'spear_fd_ctl GET_METRICS', async (guest) => [await response(guest), fdCommand.GET_METRICS]],
];

const response = async (guest: TestGuest) => send(guest, await newSession(guest));

/** The bytes that the call gives into a buffer with room to spare. */
async function whole(guest: TestGuest, call: CallName, before: number[]): Promise<Buffer> {
  const out = guest.heap.out(4096);
  const length = await guest.call(call, ...before, ...out.args);
  expect(length).toBe(out.length);
  expect(out.isIntactBeyond(length)).toBe(true);
  return out.bytes();
}

describe.each(givers)('the out-buffer of %s (%s)', (call, _name, prepare) => {
  it('takes exactly what it has room for [abi.out-buffer]', async () => {
    const guest = await openGuest();
    const before = await prepare(guest);
    const expected = await whole(guest, call, before);
    const out = guest.heap.out(expected.byteLength);
    expect(await guest.call(call, ...before, ...out.args)).toBe(expected.byteLength);
    expect(out.bytes()).toEqual(expected);
    expect(out.isIntactBeyond(expected.byteLength)).toBe(true);
  });

  it('gets the needed size and nothing else when it is too small [abi.out-buffer]', async () => {
    const guest = await openGuest();
    const before = await prepare(guest);
    const expected = await whole(guest, call, before);
    for (const short of [1, 2, expected.byteLength]) {
      const out = guest.heap.out(expected.byteLength - short);
      expect(await guest.call(call, ...before, ...out.args)).toBe(ENOSPC);
      expect(out.length).toBe(expected.byteLength);
      expect(out.isIntactBeyond(0)).toBe(true);
    }
  });

  it('loses nothing when it was too small: the next call gives the same [abi.out-buffer]', async () => {
    const guest = await openGuest();
    const before = await prepare(guest);
    const expected = await whole(guest, call, before);
    const out = guest.heap.out(expected.byteLength).offer(0);
    expect(await guest.call(call, ...before, ...out.args)).toBe(ENOSPC);
    // *out_len_ptr is now the needed size, so the very same call succeeds
    expect(await guest.call(call, ...before, ...out.args)).toBe(expected.byteLength);
    expect(out.bytes()).toEqual(expected);
  });

  it('may end with the memory [abi.out-buffer]', async () => {
    const guest = await openGuest();
    const before = await prepare(guest);
    const expected = await whole(guest, call, before);
    const ptr = guest.heap.memory.buffer.byteLength - expected.byteLength;
    const lengthPtr = guest.heap.word(expected.byteLength);
    expect(await guest.call(call, ...before, ptr, lengthPtr)).toBe(expected.byteLength);
    expect(Buffer.from(guest.heap.bytes.subarray(ptr))).toEqual(expected);
  });
});

describe('the out-buffer of spear_epoll_wait', () => {
  it('needs room for one record, says so, and then takes it [abi.out-buffer]', async () => {
    const guest = await openGuest();
    const epfd = await newEpoll(guest, [await newSession(guest), 4]);
    for (const capacity of [0, 1, 7]) {
      const out = guest.heap.out(8).offer(capacity);
      expect(await guest.call('spear_epoll_wait', epfd, ...out.args, 0)).toBe(ENOSPC);
      expect(out.length).toBe(8);
      expect(out.isIntactBeyond(0)).toBe(true);
      expect(await guest.call('spear_epoll_wait', epfd, ...out.args, 0)).toBe(1);
      expect(out.isIntactBeyond(8)).toBe(true);
    }
  });

  it('takes whole records only [abi.out-buffer]', async () => {
    const guest = await openGuest();
    const first = await newSession(guest);
    const epfd = await newEpoll(guest, [first, 4], [await newSession(guest), 4]);
    const out = guest.heap.out(15);
    expect(await guest.call('spear_epoll_wait', epfd, ...out.args, 0)).toBe(1);
    expect(out.length).toBe(8);
    expect(out.isIntactBeyond(8)).toBe(true);
    expect(out.bytes().readInt32LE(0)).toBe(first);
  });

  it('is left alone when the time is up [abi.out-buffer]', async () => {
    const guest = await openGuest();
    const out = guest.heap.out(64);
    expect(await guest.call('spear_epoll_wait', await newEpoll(guest), ...out.args, 0)).toBe(0);
    expect(out.length).toBe(0);
    expect(out.isIntactBeyond(0)).toBe(true);
  });
});
