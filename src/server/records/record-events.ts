import type { McpServerRecord } from './record.ts';

/**
 * One step of a kind of record from `prevRevision` to `revision`. Revisions may skip numbers, so only `prevRevision`
 * tells a reader whether it missed something. Several changes may travel as one event; then each id appears once.
 */
export interface RegistryEvent<R = McpServerRecord> {
  /** Random id of the store; another value means that revisions cannot be compared. */
  readonly epoch: string;
  readonly revision: number;
  readonly prevRevision: number;
  readonly upserts: readonly R[];
  readonly deletes: readonly string[];
}

/** All records of a kind at one revision, ordered by their ids. */
export interface RegistryListing<R = McpServerRecord> {
  readonly epoch: string;
  readonly revision: number;
  readonly records: readonly R[];
}
