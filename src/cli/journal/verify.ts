import { JournalError, JournalKeyMissing } from '../../journal/journal-error.ts';
import { readBlocks } from '../../journal/read-blocks.ts';
import type { ReadJournal } from '../../journal/read-journal.ts';
import { RecordedRun } from '../../journal/recorded-run.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { parseFlags } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';
import { journalKeyOptions } from './key-flag.ts';
import { readWithKey } from './read-with-key.ts';

const options = { json: { type: 'boolean' }, ...journalKeyOptions } as const;

/** `spear journal verify FILE`: 0 if it is what was written, 1 with the first bad line if it is not. */
export async function verifyJournal(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseFlags(argv, options, 'spear journal verify');
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) throw new UsageError('usage: spear journal verify FILE [--json]');
  const print = (json: object, text: string) => process.stdout.write(`${values.json ? JSON.stringify(json) : text}\n`);
  try {
    const { read } = await readWithKey(file, values);
    const report = describe(read, new RecordedRun(read));
    print({ ok: true, ...report }, sentence(file, report));
    return spearExitCodes.ok;
  } catch (error) {
    if (error instanceof JournalKeyMissing) return verifyChain(file, print);
    if (!(error instanceof JournalError)) throw error;
    print({ ok: false, problem: error.message }, error.message);
    return spearExitCodes.failed;
  }
}

/** What can be said of an encrypted journal without its key. */
function verifyChain(file: string, print: (json: object, text: string) => void): number {
  const { blocks, end, tornBytes, encrypted } = readBlocks(file);
  const key = encrypted?.key ?? '';
  const report = { blocks: blocks.length, bytes: end.bytes, torn_bytes: tornBytes, head: end.hash };
  print(
    { ok: true, encrypted_by: key, opened: false, ...report },
    `${file}: ${blocks.length} blocks, encrypted by the key ${key}; nothing changed or missing${cut(tornBytes)}. The chain was checked, and without the key (--journal-key) nothing else`,
  );
  return spearExitCodes.ok;
}

const cut = (torn: number) => (torn === 0 ? '' : `; ${torn} bytes at its end were cut off by a crash and do not count`);

type Report = ReturnType<typeof describe>;

function describe({ header, records, end, tornBytes, cipher }: ReadJournal, run: RecordedRun) {
  return {
    encrypted: cipher !== null,
    run: header.run,
    records: records.length + 1,
    bytes: end.bytes,
    torn_bytes: tornBytes,
    unsealed_bytes: Buffer.byteLength(end.unsealed),
    attempts: run.attempts,
    ended: run.end === null ? null : { reason: run.end.reason, exit_code: run.end.exit },
    head: end.hash,
  };
}

const unhashed = (bytes: number) =>
  bytes === 0 ? '' : `; its last ${bytes} bytes were written just before it was killed, and have no hash`;

function sentence(file: string, report: Report): string {
  const { records, torn_bytes: torn, unsealed_bytes: unsealed, attempts, ended, run } = report;
  const end =
    ended === null ? 'not ended' : `ended: ${ended.reason}${ended.exit_code === null ? '' : ` ${ended.exit_code}`}`;
  return `${file}: ${records} records of ${run}, attempt ${attempts}, ${end}; nothing changed or missing${unhashed(unsealed)}${cut(torn)}`;
}
