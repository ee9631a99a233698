import { describe, expect, it } from 'vitest';
import { preview1 } from '../../../../src/runtime/guest/wasi/preview1.ts';
import { WasiGuest, type WasiName, wasiNames } from '../../../support/wasi-guest.ts';

const [BADF, FAULT, INVAL, SPIPE] = [8, 21, 28, 70];
const OUTSIDE = 0xffff_fff8 | 0;

/** The strings that a pair of `*_sizes_get` and `*_get` gives. */
async function strings(guest: WasiGuest, sizes: WasiName, get: WasiName): Promise<string[]> {
  const [count, bytes] = [guest.heap.word(0), guest.heap.word(0)];
  expect(await guest.call(sizes, count, bytes)).toBe(0);
  const n = guest.heap.bytes.readUInt32LE(count);
  const pointers = guest.heap.alloc(n * 4);
  const length = guest.heap.bytes.readUInt32LE(bytes);
  const text = guest.heap.alloc(length);
  expect(await guest.call(get, pointers, text)).toBe(0);
  return Array.from({ length: n }, (_, index) => {
    const at = guest.heap.bytes.readUInt32LE(pointers + index * 4);
    expect(at).toBeGreaterThanOrEqual(text);
    const end = guest.heap.bytes.indexOf(0, at);
    expect(end).toBeLessThan(text + length);
    return guest.heap.bytes.toString('utf8', at, end);
  });
}

describe('arguments and environment', () => {
  it('are what the run was given, and nothing of the host [wasi.args]', async () => {
    const guest = new WasiGuest({ args: ['guest', '', 'grüße 🚀'], env: { A: '1', EMPTY: '' } });
    expect(await strings(guest, 'args_sizes_get', 'args_get')).toEqual(['guest', '', 'grüße 🚀']);
    expect(await strings(guest, 'environ_sizes_get', 'environ_get')).toEqual(['A=1', 'EMPTY=']);
  });

  it('may be none [wasi.args]', async () => {
    const guest = new WasiGuest();
    expect(await strings(guest, 'args_sizes_get', 'args_get')).toEqual([]);
    expect(await strings(guest, 'environ_sizes_get', 'environ_get')).toEqual([]);
  });

  it.each(['args_sizes_get', 'args_get', 'environ_sizes_get', 'environ_get'] as const)(
    '%s checks both pointers [wasi.args]',
    async (name) => {
      const guest = new WasiGuest({ args: ['guest'], env: { A: '1' } });
      const inside = guest.heap.alloc(64);
      const before = Buffer.from(guest.heap.bytes);
      expect(await guest.call(name, OUTSIDE, inside)).toBe(FAULT);
      expect(await guest.call(name, inside, OUTSIDE)).toBe(FAULT);
      expect(guest.heap.bytes.equals(before)).toBe(true);
    },
  );
});

describe('clocks and randomness', () => {
  it('clock_time_get gives the time of day, and monotonic time that never goes back [wasi.clock]', async () => {
    const guest = new WasiGuest();
    const out = guest.heap.alloc(8);
    const before = BigInt(Date.now());
    expect(await guest.call('clock_time_get', 0, 0n, out)).toBe(0);
    const ms = guest.heap.bytes.readBigUInt64LE(out) / 1_000_000n;
    expect(ms).toBeGreaterThanOrEqual(before);
    expect(ms).toBeLessThanOrEqual(BigInt(Date.now()));
    for (const clock of [1, 2, 3]) {
      await guest.call('clock_time_get', clock, 0n, out);
      const first = guest.heap.bytes.readBigUInt64LE(out);
      await guest.call('clock_time_get', clock, 0n, out);
      expect(guest.heap.bytes.readBigUInt64LE(out)).toBeGreaterThanOrEqual(first);
    }
  });

  it('clock_res_get gives nanoseconds [wasi.clock]', async () => {
    const guest = new WasiGuest();
    const out = guest.heap.alloc(8);
    expect(await guest.call('clock_res_get', 0, out)).toBe(0);
    expect(guest.heap.bytes.readBigUInt64LE(out)).toBe(1_000_000n);
    expect(await guest.call('clock_res_get', 1, out)).toBe(0);
    expect(guest.heap.bytes.readBigUInt64LE(out)).toBe(1n);
  });

  it('refuse clocks and pointers that there are not [wasi.clock]', async () => {
    const guest = new WasiGuest();
    for (const clock of [4, -1]) {
      expect(await guest.call('clock_time_get', clock, 0n, 64)).toBe(INVAL);
      expect(await guest.call('clock_res_get', clock, 64)).toBe(INVAL);
    }
    expect(await guest.call('clock_time_get', 0, 0n, 2 * 65_536 - 7)).toBe(FAULT);
    expect(await guest.call('clock_res_get', 0, OUTSIDE)).toBe(FAULT);
  });

  it('random_get fills its buffer and nothing else [wasi.random]', async () => {
    const guest = new WasiGuest();
    const out = guest.heap.out(70_000);
    expect(await guest.call('random_get', out.ptr, 70_000)).toBe(0);
    expect(out.isIntactBeyond(70_000)).toBe(true);
    // a stretch of zeros or of the filling would have been left out
    const bytes = guest.heap.bytes.subarray(out.ptr, out.ptr + 70_000);
    for (let at = 0; at < 70_000; at += 100) expect(new Set(bytes.subarray(at, at + 100)).size).toBeGreaterThan(30);
    expect(await guest.call('random_get', out.ptr, 0)).toBe(0);
    expect(await guest.call('random_get', 65_536, 65_537)).toBe(FAULT);
    expect(await guest.call('random_get', OUTSIDE, 16)).toBe(FAULT);
  });
});

describe('the standard streams', () => {
  it('fd_fdstat_get says that they are character devices, with the right to read or to write [wasi.fd]', async () => {
    const guest = new WasiGuest();
    for (const [fd, rights] of [
      [0, 1n << 1n],
      [1, 1n << 6n],
      [2, 1n << 6n],
    ] as const) {
      const out = guest.heap.out(24);
      expect(await guest.call('fd_fdstat_get', fd, out.ptr)).toBe(0);
      const stat = Buffer.from(guest.heap.bytes.subarray(out.ptr, out.ptr + 24));
      expect([stat[0], stat.readUInt16LE(2), stat.readBigUInt64LE(8), stat.readBigUInt64LE(16)]).toEqual([
        2,
        0,
        rights,
        0n,
      ]);
      expect(out.isIntactBeyond(24)).toBe(true);
    }
    expect(await guest.call('fd_fdstat_get', 3, 64)).toBe(BADF);
    expect(await guest.call('fd_fdstat_get', 1, OUTSIDE)).toBe(FAULT);
  });

  it('can be closed and not be seeked, and there are no others [wasi.fd]', async () => {
    const guest = new WasiGuest();
    for (const fd of [0, 1, 2]) {
      expect(await guest.call('fd_seek', fd, 0n, 0, 64)).toBe(SPIPE);
      expect(await guest.call('fd_close', fd)).toBe(0);
    }
    for (const fd of [3, -1, 1000]) {
      expect(await guest.call('fd_seek', fd, 0n, 0, 64)).toBe(BADF);
      expect(await guest.call('fd_close', fd)).toBe(BADF);
      expect(await guest.call('fd_prestat_get', fd, 64)).toBe(BADF);
    }
  });
});

describe('the process', () => {
  it.each([0, 7, -1, 255])('proc_exit(%i) ends the guest and does not come back [wasi.exit]', async (code) => {
    const guest = new WasiGuest();
    await expect(guest.call('proc_exit', code)).rejects.toThrow(WebAssembly.RuntimeError);
    expect(guest.exitCode).toBe(code);
  });

  it('sched_yield does nothing [wasi.exit]', async () => {
    expect(await new WasiGuest().call('sched_yield')).toBe(0);
  });
});

it('no function of the subset is left out of these tests', () => {
  const nothing = { memory: undefined, args: [], env: {}, output: undefined, readStdin: undefined, exit: undefined };
  expect(Object.keys(preview1(nothing as never)).sort()).toEqual([...wasiNames].sort());
});
