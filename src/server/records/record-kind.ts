import type { RecordIssue } from './record.ts';

/** What the store itself writes into every record. */
export interface StoreStamps {
  readonly updated_at_ms: number;
  /** The revision of its kind at which this record last changed; 0 outside a store. */
  readonly mod_revision: number;
}

export interface ParseOptions {
  /** Unknown fields are issues instead of warnings. */
  readonly strict: boolean;
  /** The record comes from a file, where some things may be written shorter. */
  readonly fromFile?: boolean;
}

export type Parsed<R> =
  | { readonly ok: true; readonly record: R; readonly warnings: readonly RecordIssue[] }
  | { readonly ok: false; readonly issues: readonly RecordIssue[] };

/** A kind of record that a registry keeps. Each has revisions, a log and watchers of its own. */
export interface RecordKind<R extends StoreStamps> {
  /** Names it in the store and in messages. */
  readonly name: 'server' | 'profile' | 'approval' | 'pin' | 'token' | 'token_use' | 'task' | 'task_revision' | 'stop';
  /** The field that holds the id. */
  readonly idField: string & keyof R;
  readonly isId: (text: string) => boolean;
  readonly parse: (input: unknown, options: ParseOptions) => Parsed<R>;
  /** What to do about one that is stored and cannot be read. */
  readonly mending: (id: string) => string;
}

export function idOf<R extends StoreStamps>(kind: RecordKind<R>, record: R): string {
  return String(record[kind.idField]);
}
