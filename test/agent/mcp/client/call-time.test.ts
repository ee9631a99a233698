import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Deadline, Deadlines } from '../../../../src/agent/mcp/client/call-time.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

function keeper() {
  const deadlines = new Deadlines();
  const expired: string[] = [];
  const keep = (name: string, inMs: number, then: () => void = () => {}): Deadline => {
    const deadline = {
      dueMs: 0,
      expire: () => {
        expired.push(`${name} at ${performance.now() - began}`);
        then();
      },
    };
    deadlines.add(deadline, inMs);
    return deadline;
  };
  const began = performance.now();
  return { deadlines, keep, expired };
}

describe('deadlines', () => {
  it('expire in their time, whatever the order they came in, by one timer', () => {
    const { keep, expired } = keeper();
    keep('c', 300);
    keep('a', 100);
    keep('b', 200);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1_000);
    expect(expired).toEqual(['a at 100', 'b at 200', 'c at 300']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('that were met never expire, nor one that an other ended', () => {
    const { deadlines, keep, expired } = keeper();
    const met = keep('met', 50);
    const ended = keep('ended', 100);
    deadlines.remove(met);
    deadlines.remove(ended);
    const other = keep('other', 100, () => deadlines.remove(last));
    const last = keep('last', 100);
    vi.advanceTimersByTime(500);
    expect(expired).toEqual(['other at 100']);
    deadlines.remove(other);
  });

  it('may be set anew when they expire, and after the timer found none', () => {
    const { deadlines, keep, expired } = keeper();
    keep('first', 100, () => keep('second', 100));
    vi.advanceTimersByTime(150);
    deadlines.remove(keep('met', 10));
    vi.advanceTimersByTime(200);
    keep('third', 10);
    vi.advanceTimersByTime(100);
    expect(expired).toEqual(['first at 100', 'second at 200', 'third at 360']);
  });

  it('that are all met leave a timer that holds up nothing', () => {
    vi.useRealTimers();
    const { deadlines, keep } = keeper();
    const before = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const kept = keep('met', 60_000);
    const held = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length - before;
    expect(held()).toBe(1);
    deadlines.remove(kept);
    expect(held()).toBe(0);
    deadlines.add(kept, 60_000);
    expect(held()).toBe(1);
    deadlines.remove(kept);
  });
});
