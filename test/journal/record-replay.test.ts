import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type FixtureOptions, runFixture } from '../support/run-fixture.ts';

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
