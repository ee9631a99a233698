import { describe, expect, it } from 'vitest';
import { WasiGuest } from '../../../support/wasi-guest.ts';

const [BADF, FAULT, INVAL] = [8, 21, 28];
const MEMORY = 2 * 65_536;
const [REALTIME, MONOTONIC] = [0, 1];

interface Subscription {
  readonly userdata: bigint;
  /** 0 clock, 1 read, 2 write. */
  readonly type: number;
  readonly clock?: number;
  readonly ns?: bigint;
  readonly absolute?: boolean;
  readonly fd?: number;
}

interface PollEvent {
  readonly userdata: bigint;
  readonly error: number;
  readonly type: number;
}

async function poll(guest: WasiGuest, ...subscriptions: Subscription[]): Promise<PollEvent[]> {
  const from = guest.heap.alloc(subscriptions.length * 48);
  const { bytes } = guest.heap;
  for (const [
    index,
    { userdata, type, clock = MONOTONIC, ns = 0n, absolute = false, fd = 0 },
  ] of subscriptions.entries()) {
    const at = from + index * 48;
    bytes.writeBigUInt64LE(userdata, at);
    bytes.writeUInt8(type, at + 8);
    bytes.writeUInt32LE(type === 0 ? clock : fd, at + 16);
    bytes.writeBigUInt64LE(ns, at + 24);
    bytes.writeUInt16LE(absolute ? 1 : 0, at + 40);
  }
  const out = guest.heap.out(subscriptions.length * 32);
  const nevents = guest.heap.word(99);
  expect(await guest.call('poll_oneoff', from, out.ptr, subscriptions.length, nevents)).toBe(0);
  const count = guest.heap.bytes.readUInt32LE(nevents);
  expect(out.isIntactBeyond(count * 32)).toBe(true);
  return Array.from({ length: count }, (_, index) => {
    const event = Buffer.from(guest.heap.bytes.subarray(out.ptr + index * 32, out.ptr + index * 32 + 32));
    expect(event.subarray(11).every((byte) => byte === 0)).toBe(true);
    return { userdata: event.readBigUInt64LE(0), error: event.readUInt16LE(8), type: event.readUInt8(10) };
  });
}

async function elapsed(wait: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await wait();
  return performance.now() - started;
}

describe('poll_oneoff', () => {
  it('waits for a clock without holding the thread [wasi.poll]', async () => {
    const guest = new WasiGuest();
    let turned = 0;
    const timer = setInterval(() => turned++, 1);
    const took = await elapsed(async () => {
      const events = await poll(guest, { userdata: 7n, type: 0, ns: 20_000_000n });
      expect(events).toEqual([{ userdata: 7n, error: 0, type: 0 }]);
    });
    clearInterval(timer);
    expect(took).toBeGreaterThanOrEqual(19);
    expect(turned).toBeGreaterThan(0);
  });

  it('waits for the earliest and reports those that are due [wasi.poll]', async () => {
    const events = await poll(
      new WasiGuest(),
      { userdata: 1n, type: 0, ns: 600_000_000_000n },
      { userdata: 2n, type: 0, ns: 5_000_000n },
      { userdata: 3n, type: 0, ns: 5_000_000n },
    );
    expect(events.map(({ userdata }) => userdata)).toEqual([2n, 3n]);
  });

  it('takes absolute times of either clock, and times that have passed [wasi.poll]', async () => {
    const guest = new WasiGuest();
    const now = { [REALTIME]: () => BigInt(Date.now()) * 1_000_000n, [MONOTONIC]: () => process.hrtime.bigint() };
    for (const clock of [REALTIME, MONOTONIC] as const) {
      const ns = (now[clock] as () => bigint)() + 10_000_000n;
      await poll(guest, { userdata: 1n, type: 0, clock, ns, absolute: true });
      expect((now[clock] as () => bigint)()).toBeGreaterThanOrEqual(ns - 2_000_000n);
    }
    expect(await poll(guest, { userdata: 1n, type: 0, clock: REALTIME, ns: 1n, absolute: true })).toHaveLength(1);
    expect(await poll(guest, { userdata: 1n, type: 0, ns: 0n })).toHaveLength(1);
  });

  it('reports the standard streams as ready and others as bad, at once [wasi.poll]', async () => {
    const events = await poll(
      new WasiGuest(),
      { userdata: 1n, type: 1, fd: 0 },
      { userdata: 2n, type: 2, fd: 1 },
      { userdata: 3n, type: 2, fd: 2 },
      { userdata: 4n, type: 1, fd: 1 },
      { userdata: 5n, type: 2, fd: 7 },
      { userdata: 6n, type: 9 },
      { userdata: 7n, type: 0, ns: 600_000_000_000n },
    );
    expect(events.map(({ userdata, error }) => [userdata, error])).toEqual([
      [1n, 0],
      [2n, 0],
      [3n, 0],
      [4n, BADF],
      [5n, BADF],
      [6n, BADF],
    ]);
  });

  it('reports a clock that there is not [wasi.poll]', async () => {
    const events = await poll(new WasiGuest(), { userdata: 1n, type: 0, clock: 9, ns: 600_000_000_000n });
    expect(events).toEqual([{ userdata: 1n, error: INVAL, type: 0 }]);
  });

  it('refuses no subscription at all, and too many [wasi.poll]', async () => {
    const guest = new WasiGuest();
    expect(await guest.call('poll_oneoff', 0, 0, 0, 64)).toBe(INVAL);
    expect(await guest.call('poll_oneoff', 0, 0, -1, 64)).toBe(INVAL);
    expect(await guest.call('poll_oneoff', 0, 0, 4097, 64)).toBe(INVAL);
  });

  it('checks every pointer [wasi.poll]', async () => {
    const guest = new WasiGuest();
    expect(await guest.call('poll_oneoff', MEMORY - 47, 0, 1, 64)).toBe(FAULT);
    expect(await guest.call('poll_oneoff', 0, MEMORY - 31, 1, 64)).toBe(FAULT);
    expect(await guest.call('poll_oneoff', 0, 0, 1, MEMORY - 3)).toBe(FAULT);
    expect(await guest.call('poll_oneoff', 0xffff_fff0 | 0, 0, 1, 64)).toBe(FAULT);
  });

  it('writes its events into memory that grew while it waited [wasi.poll]', async () => {
    const guest = new WasiGuest();
    const waiting = poll(guest, { userdata: 5n, type: 0, ns: 5_000_000n });
    guest.heap.memory.grow(1);
    expect(await waiting).toEqual([{ userdata: 5n, error: 0, type: 0 }]);
  });
});
