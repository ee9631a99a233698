import { expect, it } from 'vitest';
import { newSession, recv, say, send } from '../../../support/chat-calls.ts';
import { useGuests } from '../../../support/use-guest.ts';

const PAGE = 65_536;
const HALF = 0x8000_0000;
const openGuest = useGuests();

// The pages are never touched but for a few, so they cost address space and no memory.
it('reads and writes above 2 GiB, where an i32 is negative [abi.pointers]', async () => {
  const guest = await openGuest();
  guest.heap.memory.grow((HALF + 16 * PAGE) / PAGE);
  const size = guest.heap.memory.buffer.byteLength;
  expect(size).toBeGreaterThan(HALF);

  const text = 'grüße 🚀 from above';
  const length = Buffer.from(text).copy(guest.heap.bytes, HALF + 8);
  expect(await guest.call('log', 2, (HALF + 8) | 0, length)).toBe(0);
  expect(guest.output).toEqual([['stdout', `${text}\n`]]);
  expect(await guest.call('log', 2, size - length, length)).toBe(0);
  expect(await guest.call('log', 2, size - length + 1, length)).toBe(-14);

  const fd = await newSession(guest);
  const response = await send(guest, fd);
  const expected = await recv(guest, response);
  const lengthPtr = HALF + PAGE;
  guest.heap.bytes.writeUInt32LE(expected.length, lengthPtr);
  const out = size - expected.length;
  expect(await guest.call('cchat_recv', response, out | 0, lengthPtr | 0)).toBe(expected.length);
  expect(guest.heap.bytes.toString('utf8', out)).toBe(expected);

  const status = guest.heap.bytes;
  status.writeUInt32LE(1024, lengthPtr);
  const written = await guest.call('spear_fd_ctl', response, 4, HALF | 0, lengthPtr | 0);
  expect(status.toString('utf8', HALF, HALF + written)).toBe(
    '{"closed":false,"flags":[],"kind":"ChatResponse","poll_mask":["EPOLLIN"]}',
  );
});

it('takes a length as unsigned [abi.pointers]', async () => {
  const guest = await openGuest();
  expect(await guest.call('log', 2, 0, -1)).toBe(-14);
  expect(await guest.call('log', 2, -1, 1)).toBe(-14);
  expect(await guest.call('log', 2, -1, 0)).toBe(-14);
});

it('takes an empty range anywhere in the memory, its end included [abi.pointers]', async () => {
  const guest = await openGuest();
  const end = guest.heap.memory.buffer.byteLength;
  const fd = await guest.call('cchat_create');
  expect(await guest.call('cchat_write_msg', fd, ...guest.text('user'), end, 0)).toBe(0);
  expect(await guest.call('cchat_write_msg', fd, ...guest.text('user'), 0, 0)).toBe(0);
  expect(await guest.call('cchat_write_msg', fd, ...guest.text('user'), end + 1, 0)).toBe(-14);
});

it('replaces invalid UTF-8 and keeps NUL [abi.pointers]', async () => {
  const guest = await openGuest();
  const fd = await guest.call('cchat_create');
  const bytes = Buffer.from([0x61, 0x00, 0xc3, 0x28, 0xf0, 0x9f, 0x98]);
  expect(await guest.call('cchat_write_msg', fd, ...guest.text('user'), ...guest.text(bytes))).toBe(0);
  expect(await say(guest, fd, 'user', 'ü🚀')).toBe(0);
  await send(guest, fd);
  expect(guest.backend.requests[0]?.messages.map(({ content }) => content)).toEqual(['a\0\ufffd(\ufffd', 'ü🚀']);
});
