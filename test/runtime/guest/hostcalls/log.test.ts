import { describe, expect, it } from 'vitest';
import { GuestLog } from '../../../../src/runtime/guest/hostcalls/guest-log.ts';
import type { StandardStream } from '../../../../src/runtime/port/guest-spec.ts';
import { useGuests } from '../../../support/use-guest.ts';

const openGuest = useGuests();

describe('the log call', () => {
  it('writes up to info to stdout, warn and error to stderr, and info for anything else [log.levels]', async () => {
    const guest = await openGuest();
    for (const level of [2, 3, 4, 5, -1, 2_147_483_647])
      expect(await guest.call('log', level, ...guest.text(`${level}`))).toBe(0);
    expect(guest.output).toEqual([
      ['stdout', '2\n'],
      ['stderr', 'warn: 3\n'],
      ['stderr', 'error: 4\n'],
      ['stdout', '5\n'],
      ['stdout', '-1\n'],
      ['stdout', '2147483647\n'],
    ]);
  });

  it('writes debug and trace only when asked for [log.levels]', async () => {
    for (const verbose of [false, true]) {
      const guest = await openGuest({ verbose });
      for (const level of [0, 1]) expect(await guest.call('log', level, ...guest.text('x'))).toBe(0);
      expect(guest.output).toEqual(
        verbose
          ? [
              ['stdout', 'trace: x\n'],
              ['stdout', 'debug: x\n'],
            ]
          : [],
      );
    }
  });

  it('makes one line of a message with or without line ends of its own [log.levels]', async () => {
    const guest = await openGuest();
    for (const text of ['a', 'a\n', 'a\n\n\n', '\n', '', 'a\nb\n']) await guest.call('log', 2, ...guest.text(text));
    expect(guest.output.map(([, text]) => text)).toEqual(['a\n', 'a\n', 'a\n', '\n', '\n', 'a\nb\n']);
  });
});

describe('the rate of the log', () => {
  /** A clock that stands still until it is moved. */
  function logAt(bytesPerSecond: number) {
    let now = 0;
    let drops = 0;
    const written: [StandardStream, number][] = [];
    const log = new GuestLog(
      { write: (stream, bytes) => written.push([stream, bytes.byteLength]) > 0 },
      { verbose: false, bytesPerSecond, now: () => now, onFirstDrop: () => drops++ },
    );
    return { log, written, drops: () => drops, pass: (ms: number) => (now += ms) };
  }

  it('is a bucket of one second: what does not fit is dropped and counted, and said once [log.rate]', () => {
    const { log, written, drops } = logAt(1024);
    for (let count = 0; count < 20; count++) log.write(2, 'x'.repeat(99));
    expect(written).toHaveLength(10);
    expect(log.dropped).toBe(10);
    expect(drops()).toBe(1);
  });

  it('fills up again with time, to one second at most [log.rate]', () => {
    const { log, written, pass } = logAt(1000);
    log.write(2, 'x'.repeat(999));
    pass(500);
    log.write(2, 'x'.repeat(499));
    log.write(2, 'x');
    expect(written).toHaveLength(2);
    pass(3_600_000);
    for (let count = 0; count < 20; count++) log.write(2, 'x'.repeat(99));
    expect(written).toHaveLength(12);
  });

  it('counts bytes of UTF-8, not characters [log.rate]', () => {
    const { log, written } = logAt(1024);
    for (let count = 0; count < 20; count++) log.write(2, '語'.repeat(33));
    expect(written.reduce((sum, [, bytes]) => sum + bytes, 0)).toBeLessThanOrEqual(1024);
  });

  it('does not count what is not written [log.rate]', () => {
    const { log, written } = logAt(1024);
    for (let count = 0; count < 100; count++) log.write(0, 'x'.repeat(100));
    log.write(2, 'x'.repeat(1000));
    expect(written).toHaveLength(1);
    expect(log.dropped).toBe(0);
  });
});
