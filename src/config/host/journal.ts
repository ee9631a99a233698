import { resolve } from 'node:path';
import type { Secret, SecretSources } from '../../server/secrets/secret.ts';
import type { ConfigFile } from '../config-file.ts';
import { readKey } from '../read-key.ts';

/** The journals of runs on this node, as its config has it. */
export interface CompiledJournalTable {
  /** Read when it is asked for, so that nobody needs it who has no journal; null: there is none. @throws ConfigError */
  readonly key: (() => Secret) | null;
}

export function compileJournalTable(
  table: { readonly key?: string | undefined } | undefined,
  file: Pick<ConfigFile, 'path' | 'folder'> | undefined,
  sources: SecretSources,
): CompiledJournalTable {
  const { key } = table ?? {};
  if (key === undefined) return Object.freeze({ key: null });
  const readFile = (path: string) => sources.readFile(resolve(file?.folder ?? '.', path));
  return Object.freeze({ key: () => readKey(key, `${file?.path}: journal.key`, { env: sources.env, readFile }) });
}
