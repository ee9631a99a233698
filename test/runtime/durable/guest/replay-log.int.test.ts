import { describe, expect, it } from 'vitest';
import { type Call, type CallName, calls } from '../../../../src/runtime/abi/calls.ts';
import { ReplayLog } from '../../../../src/runtime/durable/guest/replay-log.ts';
import { hostcalls } from '../../../../src/runtime/guest/hostcalls/all.ts';
import type { GuestState } from '../../../../src/runtime/guest/hostcalls/guest-state.ts';
import {
  RecordedMemory,
  recordedCalls,
  recordedTexts,
} from '../../../../src/runtime/guest/hostcalls/recorded-calls.ts';
import type { HostcallTable } from '../../../../src/runtime/guest/hostcalls/table.ts';
import { isEventsText, parseEvents } from '../../../../src/runtime/port/journal-events.ts';

type Handler = (guest: GuestState, ...args: unknown[]) => unknown;

const rows: readonly Call[] = calls;
const newTape = () => new ReplayLog({ events: [], continuesLive: true, wakesAtStart: false });
const asHandlers = (table: HostcallTable) => table as unknown as Readonly<Record<string, Handler>>;

/** Every call answers this. */
const answering = (value: unknown) =>
  Object.fromEntries(rows.map(({ name }) => [name, () => value])) as unknown as HostcallTable;

/** The hash of a replayLog, as the next thing it writes has it. */
function hashOf(replayLog: ReplayLog): number | undefined {
  replayLog.wallMs();
  return parseEvents(replayLog.takeUnsent()).at(-1)?.hash;
}

function hashAfter(row: Call, args: readonly unknown[], answer: unknown): number | undefined {
  const replayLog = newTape();
  asHandlers(recordedCalls(answering(answer), replayLog))[row.name]?.({} as GuestState, ...args);
  return hashOf(replayLog);
}

describe('the replayLog', () => {
  it.each(rows.map((row) => [row.name, row] as const))(
    'hashes %s: that it is made, its numbers, what it comes to',
    (_, row) => {
      const zeros = row.params.map(() => 0);
      const usual = hashAfter(row, zeros, 0);
      const others = rows.filter(({ name }) => name !== row.name).map((other) => hashAfter(other, zeros, 0));
      expect(others).not.toContain(usual);
      for (const at of zeros.keys()) expect(hashAfter(row, zeros.with(at, 1), 0)).not.toBe(usual);
      expect(hashAfter(row, zeros, -9)).not.toBe(usual);
    },
  );

  it.each([
    ['the tools of the guest could not be called: no table', 'the guest: its tools could not be called: no table'],
    [
      'the arguments of pending MCP calls reach limits.max_pending_bytes = 4096: EAGAIN',
      'MCP calls under way have arguments of limits.max_pending_bytes = 4096: EAGAIN',
    ],
    [
      'the host cannot call the tools of a component: send with HAND_BACK (4), otherwise these tool calls fail',
      'a component’s tools are handed back to it: send with HAND_BACK (4); without it the model is told they failed',
    ],
  ])('hashes the reworded notice %j as the first journals did', (now, first) => {
    const hashes = [now, first, 'another notice'].map((text) => {
      const replayLog = newTape();
      replayLog.recordPost([0, 0, 0, 'notice', text]);
      return hashOf(replayLog);
    });
    expect(hashes[0]).toBe(hashes[1]);
    expect(hashes[0]).not.toBe(hashes[2]);
  });

  it('fires a timer of an earlier attempt at its deadline, and reports long timers until they end', async () => {
    const told: unknown[] = [];
    const sleeps = [[1, Date.now() - 1]] as const;
    const replayLog = new ReplayLog({
      events: [],
      continuesLive: true,
      wakesAtStart: false,
      sleeps,
      reportTimersMs: 1_000,
    });
    replayLog.attach({ deliver: () => {}, releaseHeld: () => {}, post: (request) => told.push(request) });
    // Another hour would be longer than any test.
    await new Promise<void>((resolve) => replayLog.after(3_600_000, resolve));
    replayLog.after(10, () => {})();
    const stop = replayLog.after(5_000, () => {});
    expect(told).toEqual([['sleeps', 3, 5_000]]);
    stop();
    expect(told).toEqual([
      ['sleeps', 3, 5_000],
      ['woke', 3],
    ]);
  });

  it('continues live also if the last recorded event arrives while the guest waits', async () => {
    const first = newTape();
    first.attach({ deliver: () => {}, releaseHeld: () => {}, post: () => {} });
    await new Promise<void>((resolve) => first.after(1, resolve));
    const events = parseEvents(first.takeUnsent()).map((event) => ({ ...event, message: null }));
    expect(events.map(({ kind }) => kind)).toEqual(['t']);

    const told: unknown[] = [];
    const { promise: isLive, resolve: live } = Promise.withResolvers<void>();
    const replayLog = new ReplayLog({ events, continuesLive: true, wakesAtStart: false });
    replayLog.attach({ deliver: () => {}, releaseHeld: live, post: (request) => told.push(request) });
    await new Promise<void>((resolve) => replayLog.after(3_600_000, resolve));
    await isLive;
    expect(told).toEqual([['live']]);
  });

  it('hashes the beginning and the length of the texts that are passed, in the memory and beside it', () => {
    const memory = new WebAssembly.Memory({ initial: 1 });
    const after = (text: string) => {
      const replayLog = newTape();
      const recorded = new RecordedMemory(replayLog);
      recorded.attach(memory);
      Buffer.from(memory.buffer).write(text, 3);
      recorded.readText(3, text.length);
      return hashOf(replayLog);
    };
    const beside = (text: string) => {
      const replayLog = newTape();
      asHandlers(recordedTexts(recordedCalls(answering(0), replayLog), replayLog)).log?.({} as GuestState, 2, text);
      return hashOf(replayLog);
    };
    for (const hash of [after, beside]) {
      expect(hash('hello')).toBe(hash('hello'));
      expect(hash('hello')).not.toBe(hash('hellp'));
      expect(hash('hello')).not.toBe(hash('hello '));
      expect(hash('x'.repeat(64))).not.toBe(hash('x'.repeat(65)));
    }
  });

  it('records the values of exactly those calls that the table says have some', async () => {
    const recorded = new Map<string, string[]>();
    for (const name of [
      'time_now_ms',
      'wall_time_s',
      'random_i64',
      'sleep_ms',
      'spear_abi_version',
    ] satisfies CallName[]) {
      const replayLog = newTape();
      await asHandlers(recordedCalls(hostcalls, replayLog))[name]?.({ sources: replayLog } as unknown as GuestState, 1);
      const written = replayLog.takeUnsent();
      expect(isEventsText(written)).toBe(true);
      recorded.set(
        name,
        parseEvents(written).map(({ kind }) => kind),
      );
    }
    expect(Object.fromEntries(recorded)).toEqual({
      time_now_ms: ['c'],
      wall_time_s: ['c'],
      random_i64: ['d'],
      sleep_ms: ['t'],
      spear_abi_version: [],
    });
    const saying = (what: Call['records'][number]) =>
      rows.filter(({ records }) => records.includes(what)).map(({ name }) => name);
    expect(saying('value')).toEqual(['time_now_ms', 'wall_time_s', 'random_i64']);
    expect(saying('timeout')).toEqual(['sleep_ms', 'spear_epoll_wait']);
  });

  it('takes nothing for its text but what it writes itself', () => {
    expect(isEventsText('1.2:0badcafe:r7 ')).toBe(true);
    for (const text of ['1.2:0badcafe:r7"', '1.2:0badcafe:x7 ', 'x', '1.2:0badcafe:r7\n', 7])
      expect(isEventsText(text)).toBe(false);
  });
});
