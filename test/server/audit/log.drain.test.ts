import { describe, expect, it } from 'vitest';
import { DrainDeadline, STALLED_MS, START_MS } from '../../../src/server/audit/log.ts';

describe('the deadline of a closing audit log', () => {
  it('gives a thread that has not run yet as long as a busy machine needs to start it', () => {
    const deadline = new DrainDeadline(1_000, 0);
    expect(deadline.leftMs(1_000 + STALLED_MS, 0)).toBe(START_MS - STALLED_MS);
    expect(deadline.leftMs(1_000 + START_MS, 0)).toBe(0);
  });

  it('begins again with every step, so that a slow thread is never given up while it works', () => {
    const deadline = new DrainDeadline(0, 1);
    for (let step = 2; step < 100; step++) expect(deadline.leftMs(step * (STALLED_MS - 1), step)).toBe(STALLED_MS);
  });

  it('gives up a thread that finished no step for the stall time', () => {
    const deadline = new DrainDeadline(0, 7);
    expect(deadline.leftMs(STALLED_MS - 1, 7)).toBe(1);
    expect(deadline.leftMs(STALLED_MS, 7)).toBe(0);
  });

  it('applies the stall time as soon as the thread runs', () => {
    const deadline = new DrainDeadline(0, 0);
    expect(deadline.leftMs(20_000, 1)).toBe(STALLED_MS);
  });

  it('survives a counter that wraps around', () => {
    const deadline = new DrainDeadline(0, 2 ** 31 - 1);
    expect(deadline.leftMs(4_000, -(2 ** 31))).toBe(STALLED_MS);
  });
});
