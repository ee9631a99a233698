import { visible } from '../../base/visible-text.ts';
import { JournalError } from '../../journal/journal-error.ts';
import type { ReadJournal } from '../../journal/read-journal.ts';
import { spearExitCodes } from '../exit-codes.ts';
import type { JournalKeyFlags } from './flags.ts';
import { readWithKey } from './read-with-key.ts';

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
