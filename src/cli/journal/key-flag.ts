import { loadHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { readKey } from '../../config/secret-reference.ts';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import type { JournalKeyFlags } from './flags.ts';

/** The key that `--journal-key` names; null: the flag is absent. @throws ConfigError */
export function namedJournalKey(reference: string | undefined): string | null {
  if (reference === undefined) return null;
  return readKey(reference, '--journal-key', { env: processEnvironment, readFile: readSecretFile }).reveal();
}

/** The key that the config names; null: none. @throws ConfigError */
export async function configuredJournalKey({ config }: JournalKeyFlags): Promise<string | null> {
  const { journal } = await loadHostConfig({ file: config, env: processEnvironment });
  return journal.key?.().reveal() ?? null;
}

/** The key of the flag, else of the config. @throws ConfigError */
export async function journalKeyOf(flags: JournalKeyFlags): Promise<string | null> {
  return namedJournalKey(flags.journalKey) ?? configuredJournalKey(flags);
}
