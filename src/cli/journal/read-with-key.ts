import { type JournalKey, journalKey } from '../../journal/block-cipher.ts';
import { JournalKeyMissing } from '../../journal/journal-error.ts';
import { type ReadJournal, readJournal } from '../../journal/read-journal.ts';
import { configuredJournalKey, type JournalKeyFlags, namedJournalKey } from './key-flag.ts';

/**
 * A journal and the key that opened it: that of the flag, or else that of the config, which is only read for a journal
 * that is encrypted. @throws JournalError, ConfigError
 */
export async function readWithKey(
  file: string,
  flags: JournalKeyFlags,
): Promise<{ readonly read: ReadJournal; readonly key: string | null }> {
  const named = namedJournalKey(flags['journal-key']);
  try {
    return { read: readJournal(file, keyOf(named)), key: named };
  } catch (error) {
    if (!(error instanceof JournalKeyMissing)) throw error;
    const configured = await configuredJournalKey(flags);
    return { read: readJournal(file, keyOf(configured)), key: configured };
  }
}

const keyOf = (key: string | null): JournalKey | null => (key === null ? null : journalKey(key));
