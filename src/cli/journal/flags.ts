import { type FlagValues, text } from '../command-table.ts';

/** Flags of every command that reads a journal. */
export const journalKeyFlags = {
  'journal-key': text('REF', 'file:PATH or env:NAME of the key that opens an encrypted journal', {
    fallback: '[journal] key of the config',
  }),
  config: text('FILE', 'host config', { fallback: '$SPEAR_CONFIG, else ~/.config/spear/config.toml if it exists' }),
} as const;

export type JournalKeyFlags = FlagValues<typeof journalKeyFlags>;
