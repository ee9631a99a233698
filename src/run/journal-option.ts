import { resolve } from 'node:path';
import type { JsonObject } from '../base/json.ts';
import { ConfigError } from '../config/config-error.ts';
import { refuseUnknownKeys } from '../config/option-keys.ts';
import { MIN_KEY_CHARS } from '../config/read-key.ts';
import { type JournalSync, journalSyncs } from '../runtime/durable/journal.ts';
import type { JournalPlace } from '../runtime/durable/journal-place.ts';

export const journalModes = ['record', 'resume', 'replay'] as const;
export type JournalMode = (typeof journalModes)[number];

export interface JournalOption {
  readonly file: string;
  /**
   * `record`: a new file. `resume`: the run that it has goes on where it was; args, env and limits are those it began
   * with. `replay`: the run is lived through again, without any model, tool or input. @default 'record'
   */
  readonly mode?: JournalMode | undefined;
  /** `write`: what precedes an effect survives the end of this process; `disk`: that of the machine. @default 'write' */
  readonly sync?: JournalSync | undefined;
  /**
   * Encrypts what the journal holds, or opens it: a secret text of at least 16 characters. With a key, a journal that
   * was begun without one is not resumed. @default none; with runTask that of [journal] of the host's config
   */
  readonly key?: string | null | undefined;
  /** Where the module is, for whoever resumes or replays. @default `wasm`, where that is a path */
  readonly module?: string | null | undefined;
  /** Kept in the journal for whoever resumes. @default nothing */
  readonly command?: JsonObject | null | undefined;
  /**
   * The run comes from a backup, and may have continued after the backup was made: the outcome of a call that the journal
   * does not have is unknown. @default false
   */
  readonly restored?: boolean | undefined;
  /** Where it is kept instead of a file; `file` is then what errors call it. @default none */
  readonly place?: JournalPlace | null | undefined;
}

export type CompiledJournal = { readonly [Key in keyof JournalOption]-?: Exclude<JournalOption[Key], undefined> };

const keys = {
  file: true,
  mode: true,
  sync: true,
  key: true,
  module: true,
  command: true,
  restored: true,
  place: true,
};

/** @throws ConfigError */
export function compileJournal({
  journal,
  wasm,
}: {
  readonly journal?: JournalOption | null | undefined;
  readonly wasm: unknown;
}): CompiledJournal | null {
  if (journal === undefined || journal === null) return null;
  refuseUnknownKeys('journal', journal, keys);
  const {
    file,
    mode = 'record',
    sync = 'write',
    key = null,
    module = typeof wasm === 'string' ? wasm : null,
    command = null,
    restored = false,
    place = null,
  } = journal;
  if (typeof file !== 'string' || file === '') throw new ConfigError('journal.file: expected a file path');
  if (!journalModes.includes(mode)) throw new ConfigError(`journal.mode: expected ${journalModes.join(', ')}`);
  if (!journalSyncs.includes(sync)) throw new ConfigError(`journal.sync: expected ${journalSyncs.join(' or ')}`);
  if (key !== null && (typeof key !== 'string' || key.length < MIN_KEY_CHARS)) {
    throw new ConfigError(`journal.key: expected a string of at least ${MIN_KEY_CHARS} characters`);
  }
  return Object.freeze({
    file,
    mode,
    sync,
    key,
    module: module === null ? null : resolve(module),
    command,
    restored,
    place,
  });
}
