import type { McpServerRecord } from '../../protocol/record.ts';
import type { RegistryEvent, RegistryListing } from '../../protocol/record-events.ts';

export interface WriteOptions {
  /** Write only if the stored record has this mod_revision; 0: only if there is none. */
  readonly ifModRevision?: number;
}

export interface UpsertOptions extends WriteOptions {
  /**
   * Where the content comes from, remembered beside the record and not part of it. It changes only together with the
   * content, so that repeating what somebody else wrote does not take their record over.
   * @default 'api'
   */
  readonly origin?: string;
}

export interface UpsertResult {
  /** The revision of the store after this call. */
  readonly revision: number;
  /** As stored: with `updated_at_ms` and `mod_revision`. */
  readonly record: McpServerRecord;
  /** False when the stored record had this content already; then there is no new revision. */
  readonly changed: boolean;
}

/**
 * The registry's store. Revisions start at 0, rise strictly with every change and may skip numbers; they survive
 * restarts and never go back within one epoch. All methods reject with StoreError; after `close` always with `closed`.
 */
export interface RegistryStore {
  epoch(): Promise<string>;
  revision(): Promise<number>;
  /** Everything at one revision, ordered by server_id. */
  list(): Promise<RegistryListing>;
  get(serverId: string): Promise<McpServerRecord | null>;
  /** Durable when the promise resolves. `revision_mismatch`, `not_found`, `already_exists` (ifModRevision 0). */
  upsert(record: McpServerRecord, options?: UpsertOptions): Promise<UpsertResult>;
  /** The revision of the removal. `not_found`, `revision_mismatch`. */
  remove(serverId: string, options?: WriteOptions): Promise<number>;
  /** server_id → origin of every record. */
  origins(): Promise<ReadonlyMap<string, string>>;
  /**
   * What happened after `since`, and then what happens from now on, without a hole: both are fixed when `watch` is
   * called. The past comes as one event. `since` 0 gives all records, also when the log was compacted. The iteration
   * fails with `compacted`, `future_revision`, `lagging` (the reader was too slow) or `closed`, and ends on `signal`.
   */
  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent>;
  close(): Promise<void>;
}

export const DEFAULT_ORIGIN = 'api';

/** Changes kept for watchers that come back; older ones make them list again. */
export const DEFAULT_KEPT_CHANGES = 10_000;

/** Events waiting for one watcher before it is cut off. */
export const DEFAULT_WATCHER_QUEUE = 1_024;

const storeErrorCodes = [
  'not_found',
  'already_exists',
  'revision_mismatch',
  'compacted',
  'future_revision',
  'lagging',
  'closed',
] as const;
export type StoreErrorCode = (typeof storeErrorCodes)[number];

export class StoreError extends Error {
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string) {
    super(message);
    this.name = 'StoreError';
    this.code = code;
  }
}
