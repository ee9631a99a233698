import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { journalKey } from '../../src/runtime/durable/blocks.ts';
import { readJournal } from '../../src/runtime/durable/read-journal.ts';
import { timelineOf } from '../../src/server/timeline/timeline.ts';
import { runFixture } from '../support/run-fixture.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-compat-'));
afterAll(() => rmSync(folder, { recursive: true }));

const KEY = 'the key of this fixture is no secret';
const WHOLE = 'tool sum {"a":2,"b":40} -> {"sum":42}\n2 + 40 = 42\n';

/** Each was cut off by a crash. */
const journals: readonly [name: string, format: number, key: string | null][] = [
  ['format-1', 1, null],
  ['format-1-encrypted', 1, KEY],
  ['format-2', 2, null],
  ['format-2-encrypted', 2, KEY],
];

describe.each(journals)('the journal %s', (name, format, key) => {
  const copy = (as: string) => {
    const file = join(folder, `${name}.${as}`);
    copyFileSync(fileURLToPath(new URL(`../../fixtures/journals/${name}.journal`, import.meta.url)), file);
    return file;
  };
  const wasm = `journals/format-${format}.wasm`;

  it('is verified and shown [compat.journals]', () => {
    const journal = readJournal(copy('shown'), key === null ? null : journalKey(key));
    expect(journal.header.format).toBe(format);
    expect(timelineOf(journal).entries.length).toBeGreaterThan(0);
  });

  it('is replayed to where it ends, then resumed, then replayed whole [compat.journals]', async () => {
    const file = copy('resumed');
    const replayed = await runFixture(wasm, { journal: { file, mode: 'replay', key } });
    expect(replayed).toMatchObject({ reason: 'interrupted', exitCode: null });
    const resumed = await runFixture(wasm, { backend: 'scripts/sum.json', journal: { file, mode: 'resume', key } });
    expect([resumed.exitCode, replayed.stdout + resumed.stdout]).toEqual([0, WHOLE]);
    const again = await runFixture(wasm, { journal: { file, mode: 'replay', key } });
    expect([again.exitCode, again.stdout]).toEqual([0, WHOLE]);
  });
});
