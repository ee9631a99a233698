import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { JournalFile } from '../../../src/runtime/durable/journal-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-empty-journal-'));
afterAll(() => rmSync(folder, { recursive: true }));

const options = (path: string) => ({
  ...({ path, sync: 'write', sealsAtOnce: false, maxBytes: 1_000, cipher: null } as const),
  onFull: () => {},
});

it('starts a run over an empty file that an early kill left, and over nothing else [journal.empty]', () => {
  const empty = join(folder, 'empty.journal');
  writeFileSync(empty, '', { mode: 0o644 });
  const journal = new JournalFile(options(empty));
  expect(() => new JournalFile(options(empty))).toThrow('another process is writing this journal');
  journal.close('{"t":"end"}');
  expect(readFileSync(empty, 'utf8')).toContain('"t":"end"');
  expect(statSync(empty).mode & 0o777).toBe(0o600);
  expect(() => new JournalFile(options(empty))).toThrow('the journal exists already');
  const other = join(folder, 'other');
  writeFileSync(other, '');
  const link = join(folder, 'link.journal');
  symlinkSync(other, link);
  expect(() => new JournalFile(options(link))).toThrow('the journal exists already');
});
