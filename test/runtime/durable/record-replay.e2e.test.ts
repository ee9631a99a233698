import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { GuestThreads } from '../../../src/runtime/host/guest-threads.ts';
import { type FixtureOptions, runFixture } from '../../support/run-fixture.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-journal-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const newFile = () => join(folder, `${++files}.journal`);

const unreachable = {
  name: 'unreachable',
  model: undefined,
  complete: () => Promise.reject(new Error('a replay asked a model')),
  close: async () => {},
};

const cases: readonly [guest: string, options: FixtureOptions][] = [
  ['c/hello.wasm', {}],
  ['c/chat.wasm', { args: ['hi'] }],
  ['c/test/sleep.wasm', { args: ['30'] }],
  ['c/epoll.wasm', { backend: 'scripts/epoll.json' }],
  ['c/sum.wasm', { backend: 'scripts/sum.json' }],
  ...['recv', 'epoll', 'both', 'tool']
    .map((mode) => ['c/test/poll-spin.wasm', { args: [mode], backend: 'scripts/test/poll-spin.json' }] as const)
    .map(([guest, options]): [string, FixtureOptions] => [guest, options]),
];

describe('a recorded run', () => {
  it.each(cases)('%s %j is the same again, without its model [journal.replay]', async (guest, options) => {
    const file = newFile();
    const recorded = await runFixture(guest, { ...options, journal: { file } });
    expect(recorded.message).toBe(null);
    const replayed = await runFixture(guest, { backend: unreachable, journal: { file, mode: 'replay' } });
    expect(replayed.message).toBe(null);
    expect([replayed.exitCode, replayed.stdout, replayed.stderr]).toEqual([
      recorded.exitCode,
      recorded.stdout,
      recorded.stderr,
    ]);
  });
});

describe('a journal that ends early, wherever', () => {
  const threads = new GuestThreads({ threads: 1 });
  afterAll(() => threads.close());

  it.each([
    ['c/sum.wasm', 'thread'],
    ['c/sum.wasm', 'shared'],
    ['c/hello.wasm', 'thread'],
    ['c/hello.wasm', 'shared'],
  ])('is replayed so far, and no further: %s (%s) [journal.replay]', async (guest, isolation) => {
    const shared = isolation === 'shared' ? { threads } : {};
    const file = newFile();
    const recorded = await runFixture(guest, { backend: 'scripts/sum.json', journal: { file }, ...shared });
    const lines = readFileSync(file, 'utf8').split(/(?<=\n)/);
    for (let count = 1; count < lines.length; count++) {
      const cut = newFile();
      writeFileSync(cut, lines.slice(0, count).join(''));
      const printed = readJournal(cut).records.flatMap((record) =>
        record.t === 'output' ? [Buffer.from(record.b, 'base64').toString()] : [],
      );
      const replayed = await runFixture(guest, { journal: { file: cut, mode: 'replay' }, ...shared });
      // Only the record of its end is missing: that the guest has ended, its thread had told.
      const end = count === lines.length - 1 ? ['exit', recorded.exitCode] : ['interrupted', null];
      expect([replayed.reason, replayed.exitCode], `${count} lines`).toEqual(end);
      expect(replayed.stdout.startsWith(printed.join(''))).toBe(true);
      expect(recorded.stdout.startsWith(replayed.stdout)).toBe(true);
    }
  });
});
