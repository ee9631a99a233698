import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { calls } from '../../../../src/runtime/abi/calls.ts';
import { type PostWindow, ReplayLog } from '../../../../src/runtime/durable/guest/replay-log.ts';
import { parseEvents, type ReplayEvent, type ReplayStart } from '../../../../src/runtime/port/journal-events.ts';
import type { GuestRequest, HostMessage } from '../../../../src/runtime/port/port.ts';

const START_MS = Date.parse('2026-01-02T03:04:05.000Z');
const row = (name: string) => calls.findIndex((call) => call.name === name);
const CLOCK = row('time_now_ms');
const RANDOM = row('random_i64');

beforeEach(() => void vi.useFakeTimers({ now: START_MS }));
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

class Halted extends Error {}

/** A replay log with a link that only notes what it is asked to do; `arrives` is what the host has sent. */
function open(start: Partial<ReplayStart> = {}, underway: PostWindow | null = null) {
  const posted: GuestRequest[] = [];
  const delivered: HostMessage[] = [];
  const replayLog = new ReplayLog({ events: [], continuesLive: true, wakesAtStart: false, ...start }, underway, () => {
    throw new Halted('halted');
  });
  let held = 0;
  replayLog.attach({
    deliver: (message) => delivered.push(message),
    releaseHeld: () => {
      held += 1;
    },
    post: (request) => posted.push(request),
  });
  /** A poll of the port in which these messages are found. */
  const looks = (...arrived: HostMessage[]) =>
    replayLog.poll(() => {
      for (const message of arrived) {
        replayLog.recordMessage(message);
        delivered.push(message);
      }
    });
  /** A hostcall that does something and returns a number. */
  const call = (index: number, args: readonly number[], work: () => unknown = () => {}, result = 0) => {
    replayLog.beginCall(index, ...args);
    const value = work();
    replayLog.endCall(result);
    return value;
  };
  return { replayLog, posted, delivered, looks, call, heldTaken: () => held };
}
type Opened = ReturnType<typeof open>;
type Guest = (opened: Opened) => unknown;

const reply = (call: number, body = 'x'): HostMessage => [0, call, 'done', null, body, '{}'];

/** What a guest that does this records, and what it saw. */
function recorded(guest: Guest) {
  const opened = open();
  const seen = guest(opened);
  const taken = [...opened.delivered];
  const events: ReplayEvent[] = parseEvents(opened.replayLog.takeUnsent()).map((event) => ({
    ...event,
    message: event.kind === 'r' ? (taken.shift() ?? null) : null,
  }));
  return { events, seen, delivered: opened.delivered };
}

/** The same, or another guest, on what was recorded. */
function replayed(events: readonly ReplayEvent[], guest: Guest, continuesLive = false) {
  const opened = open({ events, continuesLive });
  let seen: unknown;
  try {
    seen = guest(opened);
  } catch (error) {
    if (!(error instanceof Halted)) throw error;
    seen = 'halted';
  }
  return { ...opened, seen };
}

const ends = ({ replayLog }: Opened) => replayLog.recordPost([0, 0, 0, 'ended', { ending: { kind: 'exit', code: 0 } }]);

describe('a replay gives a guest again', () => {
  it.each([
    ['the wall clock', 'c', ({ replayLog, call }: Opened) => call(CLOCK, [], () => replayLog.wallMs())],
    ['the monotonic clock', 'c', ({ replayLog, call }: Opened) => call(CLOCK, [], () => replayLog.monotonicNs())],
    ['a random number', 'd', ({ replayLog, call }: Opened) => call(RANDOM, [], () => replayLog.randomI64())],
    [
      'random bytes',
      'd',
      ({ replayLog, call }: Opened) => {
        const bytes = new Uint8Array(100);
        call(RANDOM, [], () => replayLog.fillRandom(bytes));
        return Buffer.from(bytes).toString('hex');
      },
    ],
  ])('%s', (_, kind, guest) => {
    const { events, seen } = recorded(guest);
    expect(events.map((event) => event.kind)).toEqual([kind]);
    vi.setSystemTime(START_MS + 86_400_000);
    expect(replayed(events, guest, true).seen).toEqual(seen);
  });

  it('messages at the places where they were taken, in that order, whatever has arrived', () => {
    const guest =
      (...arrived: HostMessage[]): Guest =>
      ({ looks, call, delivered }) => {
        const [first, second, third] = arrived as [HostMessage, HostMessage, HostMessage];
        const seen: number[] = [];
        for (const some of [[], [first, second], [], [third]]) {
          call(CLOCK, [], () => looks(...some));
          seen.push(delivered.length);
        }
        return seen;
      };
    // Replies come out of order.
    const first = recorded(guest(reply(3), reply(1), reply(2)));
    expect(first.seen).toEqual([0, 2, 2, 3]);
    const again = replayed(first.events, guest(reply(9), reply(9), reply(9)), true);
    expect(again.seen).toEqual([0, 2, 2, 3]);
    expect(again.delivered).toEqual([reply(3), reply(1), reply(2)]);
  });

  it('timers where they fired, and without their wait', async () => {
    const fired: number[] = [];
    const guest: Guest = ({ replayLog }) => {
      replayLog.beginCall(CLOCK, 1);
      replayLog.after(3_600_000, () => fired.push(1));
      replayLog.after(60_000, () => fired.push(2));
    };
    const opened = open();
    guest(opened);
    await pass(3_600_000);
    const events = parseEvents(opened.replayLog.takeUnsent()).map((event) => ({ ...event, message: null }));
    expect(events.map(({ kind, value }) => kind + value)).toEqual(['t2', 't1']);
    fired.length = 0;
    replayed(events, guest, true);
    await pass(1);
    expect(fired).toEqual([2, 1]);
  });

  it('nothing of a timer that was stopped', async () => {
    const guest: Guest = ({ replayLog, call }) => {
      call(CLOCK, [], () => replayLog.after(1_000, () => {})());
      call(CLOCK, [], () => replayLog.wallMs());
    };
    const { events } = recorded(guest);
    await pass(5_000);
    expect(events.map(({ kind }) => kind)).toEqual(['c']);
    expect(replayed(events, guest, true).posted).toEqual([['live']]);
  });
});

describe('a replay accepts', () => {
  it('the same guest to its end', () => {
    const guest: Guest = (opened) => {
      opened.call(CLOCK, [], () => opened.replayLog.wallMs());
      opened.call(CLOCK, [], () => opened.replayLog.recordPost([0, 1, 0, 'send', 'hello']));
      ends(opened);
    };
    const { events } = recorded(guest);
    expect(events.map(({ kind }) => kind)).toEqual(['c', 'k', 'k']);
    const { replayLog, posted } = replayed(events, guest);
    expect([replayLog.isReplaying, posted]).toEqual([false, []]);
  });

  it('another number of the guest on its thread', () => {
    const guest =
      (number: number): Guest =>
      (opened) => {
        opened.replayLog.recordPost([number, 1, 0, 'send', 'hello']);
        ends(opened);
      };
    expect(replayed(recorded(guest(0)).events, guest(7)).posted).toEqual([]);
  });

  it('another wording of the same trap', () => {
    const guest =
      (message: string): Guest =>
      ({ replayLog }) =>
        replayLog.recordPost([0, 0, 0, 'ended', { ending: { kind: 'trap', message }, stack: message }]);
    expect(replayed(recorded(guest('unreachable')).events, guest('unreachable executed')).posted).toEqual([]);
  });
});

describe('a replay finds that', () => {
  const clock: Guest = ({ replayLog, call }) => call(CLOCK, [], () => replayLog.wallMs());
  const random: Guest = ({ replayLog, call }) => call(RANDOM, [], () => replayLog.randomI64());
  const nothing: Guest = ({ call }) => call(CLOCK, []);
  const speaks =
    (text: string): Guest =>
    ({ replayLog, call }) =>
      call(CLOCK, [], () => replayLog.recordPost([0, 1, 0, 'send', text]));
  const timer: Guest = ({ replayLog, call }) => call(CLOCK, [], () => replayLog.after(1_000, () => {}));
  const both =
    (...guests: Guest[]): Guest =>
    (opened) => {
      for (const guest of guests) guest(opened);
    };
  const at = (place: string, name = 'time_now_ms') =>
    `at hostcall ${place.split('.')[0]} (${name}), position ${place}: `;

  it.each<[string, Guest, Guest, string]>([
    ['a clock was read that is not', clock, nothing, `${at('1.1')}the journal has a clock read here`],
    ['a clock is read that was not', both(nothing, clock), both(clock), `${at('1.1')}the guest reads a clock here`],
    [
      'a random value was drawn that is not',
      random,
      both(
        ({ replayLog }) => replayLog.beginCall(RANDOM),
        ({ replayLog }) => replayLog.step(),
        ({ replayLog }) => replayLog.step(),
      ),
      `${at('1.1', 'random_i64')}the journal has a random value here`,
    ],
    [
      'a clock is read where a random value was drawn',
      ({ replayLog, call }) => call(CLOCK, [], () => replayLog.randomI64()),
      clock,
      `${at('1.1')}the guest reads a clock here`,
    ],
    [
      'a random value is drawn where a clock was read',
      ({ replayLog, call }) => call(RANDOM, [], () => replayLog.wallMs()),
      random,
      `${at('1.1', 'random_i64')}the guest draws a random value here`,
    ],
    [
      'another message is posted',
      speaks('hello'),
      speaks('hullo'),
      `${at('1.1')}the hostcalls of the guest up to here differ from the recorded ones`,
    ],
    [
      'no message is posted',
      speaks('hello'),
      ({ replayLog }) => {
        replayLog.beginCall(CLOCK);
        replayLog.step();
        replayLog.step();
      },
      `${at('1.1')}the journal has a message to the host here`,
    ],
    ['the guest ends before', both(clock, clock), both(clock, ends), `${at('1.3')}the guest ends here`],
    [
      'a call has another number',
      both(({ call }) => call(CLOCK, [1]), clock),
      both(({ call }) => call(CLOCK, [2]), clock),
      `${at('2.1')}the hostcalls of the guest up to here differ from the recorded ones`,
    ],
    [
      'a call is another',
      both(({ call }) => call(RANDOM, []), clock),
      both(({ call }) => call(CLOCK, []), clock),
      `${at('2.1')}the hostcalls of the guest up to here differ from the recorded ones`,
    ],
    [
      'a call returns something else',
      both(({ call }) => call(CLOCK, [], () => {}, 0), clock),
      both(({ call }) => call(CLOCK, [], () => {}, -9), clock),
      `${at('2.1')}the hostcalls of the guest up to here differ from the recorded ones`,
    ],
    [
      'a call passes another text',
      both(({ replayLog, call }) => call(CLOCK, [], () => replayLog.hashText('a')), clock),
      both(({ replayLog, call }) => call(CLOCK, [], () => replayLog.hashText('b')), clock),
      `${at('2.1')}the hostcalls of the guest up to here differ from the recorded ones`,
    ],
    [
      'a clock is read once less in a call',
      both(clock, ({ replayLog }) => replayLog.wallMs(), nothing),
      both(clock, nothing, nothing),
      'the journal has a clock read before this position, at 1.3',
    ],
    [
      'a message would be taken by another run',
      both(nothing, ({ looks }) => looks(reply(1))),
      both(
        ({ call }) => call(RANDOM, []),
        ({ looks }) => looks(),
      ),
      'the hostcalls of the guest up to here differ from the recorded ones',
    ],
    [
      'a clock is read before the first hostcall',
      clock,
      ({ replayLog }) => replayLog.wallMs(),
      'before the first hostcall, position 0.1: the guest reads a clock here',
    ],
  ])('%s, and names the place', (_, first, second, expected) => {
    const { events } = recorded(first);
    const { posted, seen, replayLog } = replayed(events, both(second, nothing, nothing));
    expect(seen).toBe('halted');
    expect(posted).toEqual([['replay', 'diverged', expect.stringContaining(expected)]]);
    expect(replayLog.isReplaying).toBe(true);
  });

  it('a wait ended by a timer that the guest has not set', async () => {
    const opened = open();
    timer(opened);
    await pass(1_000);
    const events = parseEvents(opened.replayLog.takeUnsent()).map((event) => ({ ...event, message: null }));
    const withoutTimer: Guest = ({ replayLog, call }) => call(CLOCK, [], () => replayLog.step());
    const { posted } = replayed(events, both(withoutTimer, nothing));
    expect(posted).toEqual([
      [
        'replay',
        'diverged',
        expect.stringContaining('the journal has a timeout here, and the guest has no such timer'),
      ],
    ]);
  });

  it('the guest waits for something that never came, within seconds', async () => {
    const { events } = recorded(both(nothing, clock));
    const { posted } = replayed(events, ({ replayLog }) => replayLog.beginCall(CLOCK));
    await pass(900);
    expect(posted).toEqual([]);
    await pass(200);
    expect(posted).toEqual([
      ['replay', 'diverged', `${at('1.0')}the guest waits here for an event that the journal does not have`],
    ]);
    await pass(60_000);
    expect([posted.length, vi.getTimerCount()]).toEqual([1, 0]);
  });
});

describe('a replay log that ends', () => {
  const clock: Guest = ({ replayLog, call }) => call(CLOCK, [], () => replayLog.wallMs());

  it.each<[string, Guest]>([
    [
      'in the middle of a call',
      ({ replayLog }) => {
        replayLog.beginCall(CLOCK);
        replayLog.wallMs();
        replayLog.endCall(0);
      },
    ],
    [
      'before a call',
      (opened) => {
        opened.replayLog.beginCall(CLOCK);
        opened.replayLog.wallMs();
        opened.replayLog.beginCall(CLOCK);
      },
    ],
    [
      'before a poll',
      (opened) => {
        opened.replayLog.beginCall(CLOCK);
        opened.replayLog.wallMs();
        opened.looks();
      },
    ],
    [
      'before a message is posted',
      ({ replayLog }) => {
        replayLog.beginCall(CLOCK);
        replayLog.wallMs();
        replayLog.recordPost([0, 1, 0, 'send', 'hello']);
      },
    ],
    [
      'before a timer is set',
      ({ replayLog }) => {
        replayLog.beginCall(CLOCK);
        replayLog.wallMs();
        replayLog.after(1, () => {});
      },
    ],
  ])('%s stops the guest there', (_, guest) => {
    const { posted, seen } = replayed(recorded(clock).events, guest);
    expect([posted, seen]).toEqual([[['replay', 'exhausted', '']], 'halted']);
  });

  it('has nothing in it stops the guest at its first call', () => {
    expect(replayed([], clock)).toMatchObject({ posted: [['replay', 'exhausted', '']], seen: 'halted' });
  });

  it('while the guest waits stops it, too', async () => {
    const { events } = recorded(({ replayLog, looks }) => {
      replayLog.beginCall(CLOCK);
      looks(reply(1));
    });
    const { posted, delivered } = replayed(events, ({ replayLog }) => {
      replayLog.beginCall(CLOCK);
      replayLog.step();
    });
    await pass(1);
    expect([delivered, posted]).toEqual([[reply(1)], [['replay', 'exhausted', '']]]);
  });

  it('is reported once, whatever the thread does afterwards', () => {
    const opened = open({ events: recorded(clock).events, continuesLive: false });
    opened.replayLog.beginCall(CLOCK);
    opened.replayLog.wallMs();
    for (let times = 0; times < 3; times++) expect(() => opened.replayLog.beginCall(CLOCK)).toThrow(Halted);
    expect(opened.posted).toEqual([['replay', 'exhausted', '']]);
  });

  it('of a guest that has ended halts nothing', () => {
    const opened = open({ events: recorded(clock).events, continuesLive: false });
    opened.replayLog.close();
    expect(() => opened.call(CLOCK, [], () => opened.replayLog.wallMs())).not.toThrow();
  });
});

describe('a resumed run', () => {
  const clock: Guest = ({ replayLog, call }) => call(CLOCK, [], () => replayLog.wallMs());

  it('continues live after the last recorded event: it says so, takes what was held back, and records again', async () => {
    const { events } = recorded(clock);
    const { replayLog, posted, heldTaken, call } = replayed(events, clock, true);
    expect([replayLog.isReplaying, posted, heldTaken()]).toEqual([false, [['live']], 0]);
    await pass(0);
    expect(heldTaken()).toBe(1);
    vi.setSystemTime(START_MS + 7_000);
    expect(call(CLOCK, [], () => replayLog.wallMs())).toBe(START_MS + 7_000);
    const [next, ...more] = parseEvents(replayLog.takeUnsent());
    expect([next?.call, next?.kind, more]).toEqual([2, 'c', []]);
  });

  it('has the same places and hashes as one that was never interrupted', () => {
    const whole = recorded((opened) => {
      clock(opened);
      vi.setSystemTime(START_MS + 7_000);
      clock(opened);
    });
    vi.setSystemTime(START_MS);
    const { events } = recorded(clock);
    const resumed = replayed(events, clock, true);
    vi.setSystemTime(START_MS + 7_000);
    clock(resumed);
    const { message: _, ...next } = whole.events[1] as ReplayEvent;
    expect(parseEvents(resumed.replayLog.takeUnsent())).toEqual([next]);
  });

  it('sets its timers when it is live, for what is left of them', async () => {
    const fired: number[] = [];
    const guest: Guest = ({ replayLog, call }) => {
      call(CLOCK, [], () => replayLog.after(60_000, () => fired.push(1)));
      call(CLOCK, [], () => replayLog.after(60_000, () => fired.push(2)));
      clock({ replayLog, call } as Opened);
    };
    const { events } = recorded(guest);
    fired.length = 0;
    // Half a minute later, of the first timer 5 s are left; the other was never announced to the host.
    vi.clearAllTimers();
    vi.setSystemTime(START_MS + 30_000);
    const opened = open({ events, continuesLive: true, sleeps: [[1, START_MS + 35_000]], reportTimersMs: 10_000 });
    guest(opened);
    expect(opened.posted).toEqual([['live'], ['sleeps', 2, 60_000]]);
    await pass(5_000);
    expect(fired).toEqual([1]);
    await pass(55_000);
    expect(fired).toEqual([1, 2]);
    expect(opened.posted.at(-1)).toEqual(['woke', 2]);
  });
});

describe('while a run is recorded', () => {
  it('long timers are reported to the host until they end', async () => {
    const { replayLog, posted } = open({ reportTimersMs: 1_000 });
    const stop = replayLog.after(5_000, () => {});
    expect(replayLog.allTimersReported).toBe(true);
    replayLog.after(10, () => {});
    expect(replayLog.allTimersReported).toBe(false);
    await pass(10);
    expect(replayLog.allTimersReported).toBe(true);
    stop();
    replayLog.after(2_000, () => {});
    await pass(2_000);
    expect(posted).toEqual([
      ['sleeps', 1, 5_000],
      ['woke', 1],
      ['sleeps', 3, 2_000],
      ['woke', 3],
    ]);
  });

  it('more than 64 KiB of drawn values are posted alone, after there is room for them', () => {
    const waited: number[] = [];
    let added = 0;
    const underway = {
      waitFor: (chars: number) => void waited.push(chars),
      add: (chars: number) => {
        added += chars;
      },
    };
    const { replayLog, posted } = open({}, underway);
    const bytes = new Uint8Array(24 * 1024);
    replayLog.fillRandom(bytes);
    expect([posted, waited]).toEqual([[], []]);
    replayLog.fillRandom(bytes);
    expect([posted, waited.length]).toEqual([[['journal']], 1]);
    const written = replayLog.takeUnsent();
    expect([written.length, replayLog.takeUnsent()]).toEqual([added, '']);
    expect(waited).toEqual([written.length]);
  });

  it('its place changes with everything that the thread does', () => {
    const { replayLog, looks, call } = open();
    const places = [replayLog.position];
    for (const work of [
      () => call(CLOCK, []),
      () => replayLog.step(),
      () => looks(),
      () => replayLog.wallMs(),
      () => replayLog.recordPost([0, 0, 0, 'notice', 'x']),
      () => replayLog.after(1, () => {})(),
    ]) {
      work();
      places.push(replayLog.position);
    }
    expect(new Set(places).size).toBe(places.length);
  });

  it('a guest that has ended fires no timer and tells nothing', async () => {
    const { replayLog, posted } = open({ reportTimersMs: 1_000 });
    const fired = vi.fn();
    const stop = replayLog.after(5_000, fired);
    replayLog.close();
    stop();
    replayLog.notifyHost(['journal']);
    await pass(60_000);
    expect([fired.mock.calls, posted]).toEqual([[], [['sleeps', 1, 5_000]]]);
  });
});
