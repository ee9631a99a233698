import { loadHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { readKey } from '../../config/read-key.ts';
import { readSecretFile } from '../../secrets/secret-file.ts';

/** Of every command that reads a journal. */
export const journalKeyOptions = { 'journal-key': { type: 'string' }, config: { type: 'string' } } as const;

export interface JournalKeyFlags {
  readonly 'journal-key'?: string | undefined;
  readonly config?: string | undefined;
}

/** The key that `--journal-key` names; null: the flag is not there. @throws ConfigError */
export function namedJournalKey(reference: string | undefined): string | null {
  if (reference === undefined) return null;
  return readKey(reference, '--journal-key', { env: processEnvironment, readFile: readSecretFile }).reveal();
}

/** The key that the config names; null: it names none. @throws ConfigError */
export async function configuredJournalKey({ config }: JournalKeyFlags): Promise<string | null> {
  const { journal } = await loadHostConfig({ file: config, env: processEnvironment });
  return journal.key?.().reveal() ?? null;
}

/** That of the flag, or else that of the config. @throws ConfigError */
export async function journalKeyOf(flags: JournalKeyFlags): Promise<string | null> {
  return namedJournalKey(flags['journal-key']) ?? configuredJournalKey(flags);
}
