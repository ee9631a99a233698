import { JournalError, JournalKeyMissing } from '../../runtime/durable/journal-error.ts';
import { type ReadJournal, readBlocks } from '../../runtime/durable/read-journal.ts';
import { RecordedRun } from '../../runtime/durable/recorded-run.ts';
import type { Call } from '../command-table.ts';
import { spearExitCodes } from '../exit-codes.ts';
import type { JournalKeyFlags } from './flags.ts';
import { readWithKey } from './open-journal.ts';

type VerifyFlags = JournalKeyFlags & { readonly json: boolean };

/** `spear journal verify FILE`: 0 if the journal is intact, 1 with the first bad line if it is not. */
export async function verifyJournal({ flags, args: [file = ''] }: Call<VerifyFlags>): Promise<number> {
  const print = (json: object, text: string) => process.stdout.write(`${flags.json ? JSON.stringify(json) : text}\n`);
  try {
    const { read } = await readWithKey(file, flags);
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

/** Checks an encrypted journal without its key: only the hash chain. */
function verifyChain(file: string, print: (json: object, text: string) => void): number {
  const { blocks, end, tornBytes, encrypted } = readBlocks(file);
  const key = encrypted?.key ?? '';
  const report = { blocks: blocks.length, bytes: end.bytes, torn_bytes: tornBytes, head: end.hash };
  print(
    { ok: true, encrypted_by: key, opened: false, ...report },
    `${file}: ${blocks.length} blocks, encrypted with key ${key}; the hash chain is intact${cut(tornBytes)}. The records were not checked: that needs --journal-key`,
  );
  return spearExitCodes.ok;
}

const cut = (torn: number) =>
  torn === 0 ? '' : `; the last ${torn} bytes are an incomplete write of a crashed process and are ignored`;

type Report = ReturnType<typeof describe>;

function describe({ header, records, end, tornBytes, cipher }: ReadJournal, run: RecordedRun) {
  return {
    encrypted: cipher !== null,
    run: header.run,
    records: records.length + 1,
    bytes: end.bytes,
    torn_bytes: tornBytes,
    unsealed_bytes: Buffer.byteLength(end.unsealed),
    attempts: run.attempt,
    ended: run.end === null ? null : { reason: run.end.reason, exit_code: run.end.exit },
    head: end.hash,
  };
}

const unhashed = (bytes: number) =>
  bytes === 0 ? '' : `; the last ${bytes} bytes were written just before the process was killed, and have no hash`;

function sentence(file: string, report: Report): string {
  const { records, torn_bytes: torn, unsealed_bytes: unsealed, attempts, ended, run } = report;
  const end =
    ended === null ? 'not ended' : `ended: ${ended.reason}${ended.exit_code === null ? '' : ` ${ended.exit_code}`}`;
  return `${file}: ${records} records of ${run}, attempt ${attempts}, ${end}; intact${unhashed(unsealed)}${cut(torn)}`;
}
