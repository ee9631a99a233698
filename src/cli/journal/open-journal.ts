import { visible } from '../../base/text.ts';
import { type JournalKey, journalKey } from '../../runtime/durable/blocks.ts';
import { JournalError, JournalKeyMissing } from '../../runtime/durable/journal-error.ts';
import { type ReadJournal, readJournal } from '../../runtime/durable/read-journal.ts';
import { spearExitCodes } from '../exit-codes.ts';
import type { JournalKeyFlags } from './flags.ts';
import { configuredJournalKey, namedJournalKey } from './key-flag.ts';

/** A journal and the key that opened it. Reads the config only for an encrypted journal. @throws JournalError, ConfigError */
export async function readWithKey(
  file: string,
  flags: JournalKeyFlags,
): Promise<{ readonly read: ReadJournal; readonly key: string | null }> {
  const named = namedJournalKey(flags.journalKey);
  try {
    return { read: readJournal(file, keyOf(named)), key: named };
  } catch (error) {
    if (!(error instanceof JournalKeyMissing)) throw error;
    const configured = await configuredJournalKey(flags);
    return { read: readJournal(file, keyOf(configured)), key: configured };
  }
}

const keyOf = (key: string | null): JournalKey | null => (key === null ? null : journalKey(key));

/** Calls `use` with an intact journal; otherwise prints the first bad line. */
export async function withJournal(
  file: string,
  flags: JournalKeyFlags,
  use: (journal: ReadJournal) => number,
): Promise<number> {
  try {
    return use((await readWithKey(file, flags)).read);
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
    process.stderr.write(`spear: ${visible(error.message)}\n`);
    return spearExitCodes.failed;
  }
}
