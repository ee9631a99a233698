import type { SqliteStore } from './sqlite-store.ts';

/** A registry where it is kept: the servers, and beside them the stores of the other kinds, which are closed with it. */
export interface KeptRegistry extends Omit<SqliteStore, 'backup'> {
  /** Null: copies of it are made where it is kept, not here. */
  readonly backup: SqliteStore['backup'] | null;
}
