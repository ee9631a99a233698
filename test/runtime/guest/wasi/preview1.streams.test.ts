import { describe, expect, it } from 'vitest';
import { WasiGuest } from '../../../support/wasi-guest.ts';

const [BADF, FAULT, INVAL, IO] = [8, 21, 28, 29];
const MEMORY = 2 * 65_536;
const OUTSIDE = 0xffff_fff8 | 0;

describe('fd_write', () => {
  it('writes the buffers one after the other and counts the bytes [wasi.write]', async () => {
    const guest = new WasiGuest();
    const nwritten = guest.heap.word(99);
    const list = guest.iovecs(guest.heap.text('one '), [0, 0], guest.heap.text('zwö\n'));
    expect(await guest.call('fd_write', 1, ...list, nwritten)).toBe(0);
    expect(guest.heap.bytes.readUInt32LE(nwritten)).toBe(9);
    expect(await guest.call('fd_write', 2, ...list, nwritten)).toBe(0);
    expect(guest.output.filter(([, text]) => text)).toEqual([
      ['stdout', 'one '],
      ['stdout', 'zwö\n'],
      ['stderr', 'one '],
      ['stderr', 'zwö\n'],
    ]);
  });

  it('writes nothing for an empty list, and up to the end of the memory [wasi.write]', async () => {
    const guest = new WasiGuest();
    const nwritten = guest.heap.word(99);
    expect(await guest.call('fd_write', 1, 0, 0, nwritten)).toBe(0);
    expect(guest.heap.bytes.readUInt32LE(nwritten)).toBe(0);
    expect(await guest.call('fd_write', 1, ...guest.iovecs([MEMORY - 2, 2]), nwritten)).toBe(0);
    expect(guest.heap.bytes.readUInt32LE(nwritten)).toBe(2);
  });

  it.each([
    ['the list leaves the memory', (guest: WasiGuest) => [1, MEMORY - 7, 1, guest.heap.word(0)]],
    ['the list is far away', (guest: WasiGuest) => [1, OUTSIDE, 1, guest.heap.word(0)]],
    [
      'a buffer leaves the memory',
      (guest: WasiGuest) => [1, ...guest.iovecs(guest.heap.text('x'), [MEMORY - 1, 2]), guest.heap.word(0)],
    ],
    ['a buffer would wrap around', (guest: WasiGuest) => [1, ...guest.iovecs([0xffff_fff0, 0x20]), guest.heap.word(0)]],
    ['the count leaves the memory', (guest: WasiGuest) => [1, ...guest.iovecs(guest.heap.text('x')), MEMORY - 3]],
  ])('writes nothing when %s [wasi.write]', async (_what, args) => {
    const guest = new WasiGuest();
    expect(await guest.call('fd_write', ...args(guest))).toBe(FAULT);
    expect(guest.output).toEqual([]);
  });

  it('takes no more buffers than a system does [wasi.write]', async () => {
    const guest = new WasiGuest();
    const list = guest.iovecs(...Array.from({ length: 1025 }, (): [number, number] => [0, 0]));
    expect(await guest.call('fd_write', 1, list[0], 1024, guest.heap.word(0))).toBe(0);
    expect(await guest.call('fd_write', 1, ...list, guest.heap.word(0))).toBe(INVAL);
    expect(await guest.call('fd_read', 0, ...list, guest.heap.word(0))).toBe(INVAL);
  });

  it('says so when the output is not taken [wasi.write]', async () => {
    const guest = new WasiGuest({ takesOutput: false });
    const nwritten = guest.heap.word(99);
    expect(await guest.call('fd_write', 1, ...guest.iovecs(guest.heap.text('x')), nwritten)).toBe(IO);
    expect(guest.heap.bytes.readUInt32LE(nwritten)).toBe(99);
  });

  it('knows stdout and stderr only [wasi.write]', async () => {
    const guest = new WasiGuest();
    for (const fd of [0, 3, -1, 1000]) expect(await guest.call('fd_write', fd, 0, 0, guest.heap.word(0))).toBe(BADF);
  });
});

describe('fd_read', () => {
  it('suspends until there is something, and spreads it over the buffers [wasi.read]', async () => {
    const { promise, resolve } = Promise.withResolvers<Uint8Array>();
    const asked: number[] = [];
    const guest = new WasiGuest({
      stdin: (maxBytes) => {
        asked.push(maxBytes);
        return promise;
      },
    });
    const [first, second, nread] = [guest.heap.out(4), guest.heap.out(8), guest.heap.word(99)];
    const reading = guest.call('fd_read', 0, ...guest.iovecs([first.ptr, 4], [0, 0], [second.ptr, 8]), nread);
    guest.heap.memory.grow(1);
    resolve(Buffer.from('abcdefg'));
    expect(await reading).toBe(0);
    expect(asked).toEqual([12]);
    expect(guest.heap.bytes.readUInt32LE(nread)).toBe(7);
    expect(guest.heap.bytes.toString('latin1', first.ptr, first.ptr + 4)).toBe('abcd');
    expect(guest.heap.bytes.toString('latin1', second.ptr, second.ptr + 3)).toBe('efg');
    expect(first.isIntactBeyond(4)).toBe(true);
    expect(second.isIntactBeyond(3)).toBe(true);
  });

  it('returns 0 at the end, and an empty read requests nothing [wasi.read]', async () => {
    let asked = 0;
    const guest = new WasiGuest({
      stdin: async () => {
        asked++;
        return new Uint8Array();
      },
    });
    const nread = guest.heap.word(99);
    expect(await guest.call('fd_read', 0, ...guest.iovecs([1024, 16]), nread)).toBe(0);
    expect(guest.heap.bytes.readUInt32LE(nread)).toBe(0);
    expect(await guest.call('fd_read', 0, ...guest.iovecs([1024, 0]), nread)).toBe(0);
    expect(asked).toBe(1);
  });

  it('takes at most 1 MiB at a time [wasi.read]', async () => {
    const asked: number[] = [];
    const guest = new WasiGuest({
      stdin: async (maxBytes) => {
        asked.push(maxBytes);
        return new Uint8Array();
      },
    });
    guest.heap.memory.grow(32);
    await guest.call('fd_read', 0, ...guest.iovecs([0, 2_000_000]), guest.heap.word(0));
    expect(asked).toEqual([1024 * 1024]);
  });

  it('refuses other streams and pointers outside [wasi.read]', async () => {
    const guest = new WasiGuest();
    for (const fd of [1, 2, 3, -1]) expect(await guest.call('fd_read', fd, 0, 0, guest.heap.word(0))).toBe(BADF);
    expect(await guest.call('fd_read', 0, ...guest.iovecs([MEMORY - 1, 2]), guest.heap.word(0))).toBe(FAULT);
    expect(await guest.call('fd_read', 0, OUTSIDE, 1, guest.heap.word(0))).toBe(FAULT);
    expect(await guest.call('fd_read', 0, ...guest.iovecs([1024, 1]), MEMORY - 3)).toBe(FAULT);
  });
});
