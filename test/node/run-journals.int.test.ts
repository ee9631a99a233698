import { appendFileSync, copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { endedEarlier } from '../../src/node/attempt.ts';
import { FileJournals } from '../../src/node/run-journals.ts';
import { runGuest } from '../../src/run/run-guest.ts';
import { Secret } from '../../src/server/secrets/secret.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-journals-'));
afterAll(() => rmSync(folder, { recursive: true }));

const journals = new FileJournals(folder);
const wasm = fileURLToPath(new URL('../../fixtures/c/hello.wasm', import.meta.url));

it('a run that ended has its outcome in its journal, even if it was stored nowhere else', async () => {
  expect(journals.summaryOf('default', 'run-a')).toBeNull();
  const file = journals.prepare('default', 'run-a');
  await runGuest({ wasm, run: 'run-a', journal: { file }, output: () => {}, stdin: () => Readable.from(['x']) });
  const earlier = journals.summaryOf('default', 'run-a');
  const ending = endedEarlier(earlier);
  expect(ending).toMatchObject({ status: 'succeeded', exit: { reason: 'exit', code: 0 } });
  expect(Buffer.from(ending?.result ?? []).toString()).toBe('hello from C\n');
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  // Without its last block it has not ended.
  writeFileSync(file, `${lines.slice(0, -1).join('\n')}\n`);
  expect(endedEarlier(journals.summaryOf('default', 'run-a'))).toBeNull();
});

it('with a key they are encrypted, and read again with it; a lock that was left behind goes with its journal', async () => {
  const key = 'a key of sixteen characters';
  const encrypted = new FileJournals(folder, new Secret(key));
  const journal = { file: encrypted.prepare('default', 'run-k'), key };
  await runGuest({ wasm, run: 'run-k', journal, output: () => {}, stdin: () => Readable.from(['x']) });
  expect(readFileSync(journal.file, 'utf8')).not.toContain('"t":"header"');
  expect(endedEarlier(encrypted.summaryOf('default', 'run-k'))).toMatchObject({ status: 'succeeded' });
  expect(() => journals.summaryOf('default', 'run-k')).toThrow('encrypted');
  writeFileSync(`${journal.file}.lock`, '');
  await encrypted.remove('default', 'run-k');
  expect([existsSync(journal.file), existsSync(`${journal.file}.lock`)]).toEqual([false, false]);
});

it('half a header is nothing, and what was changed is not taken', () => {
  const file = journals.prepare('default', 'run-b');
  writeFileSync(file, '{"t":"header","for');
  expect(journals.summaryOf('default', 'run-b')).toBeNull();
  expect(existsSync(file)).toBe(false);
  const other = journals.path('default', 'run-a');
  appendFileSync(other, `{"t":"end","reason":"exit","exit":0,"message":null,"#":"${'0'.repeat(64)}"}\n`);
  expect(() => journals.summaryOf('default', 'run-a')).toThrow('the block was changed or damaged');
});

it('a journal of another run is refused, whole as it is and with the same key [journal.run-bound]', async () => {
  const key = 'a key of sixteen characters';
  for (const [name, secret] of [
    ['plain', null],
    ['keyed', new Secret(key)],
  ] as const) {
    const kept = new FileJournals(join(folder, name), secret);
    const journal = { file: kept.prepare('team-b', 'run-of-b'), key: secret && key };
    await runGuest({ wasm, run: 'run-of-b', journal, output: () => {}, stdin: () => Readable.from(['x']) });
    copyFileSync(journal.file, kept.prepare('team-a', 'run-of-a'));
    expect(() => kept.summaryOf('team-a', 'run-of-a')).toThrow('belongs to "run-of-b", not to the run run-of-a');
    await expect(kept.timeline('team-a', 'run-of-a')).rejects.toThrow('belongs to "run-of-b"');
  }
});

it('with a key, a journal in the clear is refused in the place of an encrypted one [journal.downgrade]', async () => {
  const file = journals.prepare('default', 'run-d');
  await runGuest({ wasm, run: 'run-d', journal: { file }, output: () => {}, stdin: () => Readable.from(['x']) });
  expect(journals.summaryOf('default', 'run-d')).toMatchObject({ end: { exit: 0 } });
  const encrypted = new FileJournals(folder, new Secret('a key of sixteen characters'));
  expect(() => encrypted.summaryOf('default', 'run-d')).toThrow('not encrypted, but a journal key is configured');
});
