import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ServerStep } from '../../../src/agent/mcp/client/server-entry.ts';
import { ServerTroubles } from '../../../src/agent/mcp/server-troubles.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const listing: ServerStep = { what: 'tools/list', sinceMs: 0, atMostMs: 60_000 };

function open() {
  const texts: (string | null)[] = [];
  let now = 0;
  const troubles = new ServerTroubles({ onServerWait: (text) => texts.push(text) }, () => now);
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 1_000) {
      now += 1_000;
      await vi.advanceTimersByTimeAsync(1_000);
    }
  };
  return { texts, troubles, pass };
}

describe('a wait for a server', () => {
  it('is shown with the time passed, and withdrawn when it is over [mcp.wait-status]', async () => {
    const { texts, troubles, pass } = open();
    const work = Promise.withResolvers<void>();
    const waiting = troubles.during('mute', () => listing, work.promise);
    await pass(41_000);
    expect(texts).toEqual([1, 11, 21, 31, 41].map((s) => `server mute: tools/list, ${s} s of 60`));
    work.resolve();
    await waiting;
    await pass(60_000);
    expect(texts.slice(5)).toEqual([null]);
  });

  it('is not shown where the server answers soon [mcp.wait-status]', async () => {
    const { texts, troubles, pass } = open();
    await troubles.during('quick', () => listing, Promise.resolve());
    await pass(60_000);
    expect(texts).toEqual([]);
  });

  it('names all servers that the run waits for [mcp.wait-status]', async () => {
    const { texts, troubles, pass } = open();
    const never = new Promise<void>(() => {});
    void troubles.during('one', () => listing, never);
    void troubles.during('two', () => ({ what: 'start', sinceMs: 0, atMostMs: 30_000 }), never);
    await pass(1_000);
    expect(texts).toEqual(['server one: tools/list, 1 s of 60; server two: start, 1 s of 30']);
  });
});

it('servers that a run lacks are bounded, and so are their reasons [mcp.degraded]', async () => {
  const troubles = new ServerTroubles({});
  const reason = 'x'.repeat(10_000);
  await troubles.add(Array.from({ length: 100 }, (_, at) => ({ server: `s${at}`, reason })));
  expect(troubles.degraded).toHaveLength(33);
  const rest = { server: '*', reason: 'more than 32 servers are missing; the others are not listed' };
  expect(troubles.degraded.at(-1)).toEqual(rest);
  expect(troubles.degraded[0]?.reason.length).toBeLessThanOrEqual(401);
});
