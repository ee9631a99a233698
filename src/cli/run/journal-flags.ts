import { type JournalSync, journalSyncs } from '../../protocol/journal.ts';
import { UsageError } from '../usage-error.ts';

export const journalOptions = {
  journal: { type: 'string' },
  'journal-sync': { type: 'string' },
  'journal-key': { type: 'string' },
  resume: { type: 'string' },
} as const;

export interface JournalFlags {
  readonly journal: string | undefined;
  readonly journalSync: JournalSync | undefined;
  /** A reference: env:NAME or file:PATH. */
  readonly journalKey: string | undefined;
  readonly resume: string | undefined;
}

export function parseJournalFlags(values: {
  readonly journal?: string | undefined;
  readonly 'journal-sync'?: string | undefined;
  readonly 'journal-key'?: string | undefined;
  readonly resume?: string | undefined;
}): JournalFlags {
  const { journal, 'journal-sync': sync, 'journal-key': journalKey, resume } = values;
  if (journal !== undefined && resume !== undefined) {
    throw new UsageError('--journal and --resume: a resumed run goes on in the journal that it has');
  }
  const journalSync = journalSyncs.find((known) => known === sync);
  if (sync !== undefined && journalSync === undefined) {
    throw new UsageError(`--journal-sync ${sync}: expected ${journalSyncs.join(' or ')}`);
  }
  return { journal, journalSync, journalKey, resume };
}
