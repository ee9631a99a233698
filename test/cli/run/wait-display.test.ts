import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { SHOWN_AFTER_MS, WaitDisplay } from '../../../src/cli/run/wait-display.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function display(onTerminal: boolean) {
  const said: string[] = [];
  const drawn: string[] = [];
  const draw = onTerminal ? (text: string) => void drawn.push(text) : null;
  return { said, drawn, waits: new WaitDisplay({ say: (text) => void said.push(text), draw }) };
}

const start = { what: 'server "a" to start', atMostMs: 30_000 };

describe('where there is no terminal', () => {
  it('a wait is a line, once, after two seconds [cli.waits]', () => {
    const { said, waits } = display(false);
    const over = waits.waiting(start);
    vi.advanceTimersByTime(SHOWN_AFTER_MS - 1);
    expect(said).toEqual([]);
    vi.advanceTimersByTime(20_000);
    expect(said).toEqual(['waiting for server "a" to start (2 s, at most 28 s more)']);
    over();
    vi.advanceTimersByTime(20_000);
    expect(said).toHaveLength(1);
  });

  it('a short wait is none, and many for the same thing at once are one [cli.waits]', () => {
    const { said, waits } = display(false);
    waits.waiting(start)();
    const many = Array.from({ length: 50 }, () => waits.waiting({ what: 'a place', atMostMs: null }));
    vi.advanceTimersByTime(SHOWN_AFTER_MS);
    expect(said).toEqual(['waiting for a place (2 s)']);
    for (const over of many) over();
    waits.waiting({ what: 'a place', atMostMs: null });
    vi.advanceTimersByTime(SHOWN_AFTER_MS);
    expect(said).toHaveLength(2);
  });
});

describe('on a terminal', () => {
  it('the line is kept up to date, and goes away with the wait [cli.waits]', () => {
    const { said, drawn, waits } = display(true);
    const over = waits.waiting(start);
    vi.advanceTimersByTime(SHOWN_AFTER_MS + 1_000);
    expect(drawn).toEqual([
      'waiting for server "a" to start (2 s, at most 28 s more)',
      'waiting for server "a" to start (3 s, at most 27 s more)',
    ]);
    over();
    vi.advanceTimersByTime(10_000);
    expect(drawn.slice(2)).toEqual(['']);
    expect(said).toEqual([]);
  });

  it('the longest wait is told, with how many more there are [cli.waits]', () => {
    const { drawn, waits } = display(true);
    const first = waits.waiting(start);
    for (let count = 0; count < 2; count++) waits.waiting({ what: 'server "b" to start', atMostMs: null });
    vi.advanceTimersByTime(SHOWN_AFTER_MS);
    expect(drawn.at(-1)).toBe('waiting for server "a" to start (2 s, at most 28 s more); and 1 more');
    first();
    expect(drawn.at(-1)).toBe('waiting for server "b" to start (2 s)');
  });

  it('other output takes it away for a moment [cli.waits]', () => {
    const { drawn, waits } = display(true);
    waits.waiting(start);
    waits.erase();
    expect(drawn).toEqual([]);
    vi.advanceTimersByTime(SHOWN_AFTER_MS);
    waits.erase();
    expect(drawn.at(-1)).toBe('');
    vi.advanceTimersByTime(1_000);
    expect(drawn.at(-1)).toContain('(3 s');
  });
});

it.each([true, false])('nothing is shown while a question is open; on a terminal: %s [cli.waits]', (onTerminal) => {
  const { said, drawn, waits } = display(onTerminal);
  const release = waits.hold();
  waits.waiting(start);
  const over = waits.waiting({ what: 'what is over by then', atMostMs: null });
  vi.advanceTimersByTime(10_000);
  over();
  expect([said, drawn]).toEqual([[], []]);
  release();
  expect([...said, ...drawn]).toEqual(['waiting for server "a" to start (10 s, at most 20 s more)']);
});

it('what a server wrote cannot steer the terminal [cli.waits]', () => {
  const { said, waits } = display(false);
  waits.waiting({ what: 'tool "\u001b[2J\r\u202eevil"', atMostMs: null });
  vi.advanceTimersByTime(SHOWN_AFTER_MS);
  for (const steering of ['\u001b', '\r', '\u202e']) expect(said[0]).not.toContain(steering);
});
