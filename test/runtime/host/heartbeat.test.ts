import { describe, expect, it } from 'vitest';
import { BEAT_MS, Heartbeat } from '../../../src/runtime/host/heartbeat.ts';

const TURN_MS = 100;

/** A thread whose processor time a test sets, and the host's clock. */
class FakeThread {
  readonly pings: number[] = [];
  computedMs: number | null = 0;
  now = 0;
  readonly heartbeat = new Heartbeat(
    (ping) => this.pings.push(ping),
    async () => this.computedMs,
  );

  constructor() {
    this.heartbeat.answered(0); // it has booted
    this.beat();
  }

  /** The next beat, so much later than it should be. */
  beat(lateMs = 0): number {
    this.now += BEAT_MS + lateMs;
    return this.heartbeat.beat(this.now);
  }

  /** Beats for so long; `computing` of each millisecond the thread computes. Whether it was found to be held. */
  async silentFor(ms: number, computing: number, lateMs = 0): Promise<boolean> {
    for (const end = this.now + ms; this.now < end; ) {
      const silentMs = this.beat(lateMs);
      if (this.computedMs !== null) this.computedMs += (BEAT_MS + lateMs) * computing;
      if (silentMs >= TURN_MS && (await this.heartbeat.isBlocked(this.now, TURN_MS))) return true;
    }
    return false;
  }
}

describe('a thread that does not answer', () => {
  it('is held by a guest that computes', async () => {
    expect(await new FakeThread().silentFor(3 * TURN_MS, 1)).toBe(true);
  });

  it('is blocked if it used no processor time for 10 turn_ms and a second ping failed [threads.blocked]', async () => {
    const thread = new FakeThread();
    expect(await thread.silentFor(9 * TURN_MS, 0)).toBe(false);
    expect(thread.pings).toEqual([1]);
    expect(await thread.silentFor(3 * TURN_MS, 0)).toBe(true);
    expect(thread.pings).toEqual([1, 2]);
  });

  it.each([1, 2])('is not blocked if it answers ping %i in time [threads.blocked]', async (ping) => {
    const thread = new FakeThread();
    while (thread.pings.length < 2) expect(await thread.silentFor(BEAT_MS, 0)).toBe(false);
    thread.heartbeat.answered(ping);
    expect(thread.heartbeat.isSilent).toBe(false);
    expect(await thread.silentFor(9 * TURN_MS, 0)).toBe(false);
  });

  it('is not blocked while the host itself is late: both wait for a processor [threads.blocked]', async () => {
    const thread = new FakeThread();
    expect(await thread.silentFor(100 * TURN_MS, 0, 2 * BEAT_MS)).toBe(false);
    expect(thread.pings).toEqual([1]);
    expect(await thread.silentFor(13 * TURN_MS, 0)).toBe(true);
  });

  it('is not blocked if it computes a little: the machine is busy [threads.blocked]', async () => {
    expect(await new FakeThread().silentFor(100 * TURN_MS, 0.1)).toBe(false);
  });
});
