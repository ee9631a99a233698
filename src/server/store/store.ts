import type { RecordKind, RegistryEvent, RegistryListing, StoreStamps } from '../records/record-kind.ts';
import type { McpServerRecord } from '../records/server.ts';

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

/** One of the changes of `apply`. */
export type StoreChange<R = McpServerRecord> =
  | ({ readonly upsert: R } & UpsertOptions)
  | ({ readonly remove: string } & WriteOptions);

export interface ApplyResult<R = McpServerRecord> {
  /** The revision of the store after this call. */
  readonly revision: number;
  /** As stored, in the order of the changes; null for a removal. */
  readonly records: readonly (R | null)[];
  /** How many changes there were; an upsert of what is stored already is none. */
  readonly changed: number;
}

export interface UpsertResult<R = McpServerRecord> {
  /** The revision of the store after this call. */
  readonly revision: number;
  /** As stored: with `updated_at_ms` and `mod_revision`. */
  readonly record: R;
  /** False when the stored record had this content already; then there is no new revision. */
  readonly changed: boolean;
}

/**
 * The store of one kind of record. Revisions start at 0, rise strictly with every change and may skip numbers; they survive
 * restarts and never go back within one epoch. A write that cannot be made durable fails with `not_stored` and changes
 * nothing; reading goes on. Where others write to the same store, a write may fail with `outcome_unknown` (it may have been
 * made) or `not_visible` (it was made, and is not read here yet), and anything with `not_current`. All methods reject with StoreError; after `close` always with `closed`.
 */
export interface RegistryStore<R extends StoreStamps = McpServerRecord> extends StoreReader<R> {
  /** Durable when the promise resolves. `revision_mismatch`, `not_found`, `already_exists` (ifModRevision 0). */
  upsert(record: R, options?: UpsertOptions): Promise<UpsertResult<R>>;
  /** The revision of the removal. `not_found`, `revision_mismatch`. */
  remove(id: string, options?: WriteOptions): Promise<number>;
  /**
   * Writes all of the changes, each to another record, or none of them; durable when the promise resolves. Watchers get
   * one event, so nobody ever sees a part. Fails as `upsert` and `remove` do, for the first change that cannot be made.
   * Thousands of changes do not keep others from being served.
   */
  apply(changes: readonly StoreChange<R>[]): Promise<ApplyResult<R>>;
}

/** The half of a store that changes nothing. */
export interface StoreReader<R extends StoreStamps = McpServerRecord> {
  readonly kind: RecordKind<R>;
  epoch(): Promise<string>;
  revision(): Promise<number>;
  /** Everything at one revision, ordered by id. */
  list(): Promise<RegistryListing<R>>;
  get(id: string): Promise<R | null>;
  /** id → origin of every record. */
  origins(): Promise<ReadonlyMap<string, string>>;
  /**
   * What happened after `since`, and then what happens from now on, without a hole: both are fixed when `watch` is
   * called. The past comes as one event. `since` 0 gives all records, also when the log was compacted. The iteration
   * fails with `compacted`, `future_revision`, `lagging` (the reader was too slow) or `closed`, and ends on `signal`.
   */
  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent<R>>;
  /** Resolves when everything is read here that was acknowledged before the call, by whomever. */
  upToDate(): Promise<void>;
  /**
   * Why what it would answer may be out of date, which it then does not: it was cut off from where the records are. Null: it
   * is known to be current.
   */
  currencyProblem(): string | null;
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
  'not_stored',
  'outcome_unknown',
  'not_visible',
  'not_current',
  'compacted',
  'future_revision',
  'lagging',
  'closed',
] as const;
export type StoreErrorCode = (typeof storeErrorCodes)[number];

export class StoreError extends Error {
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }
}

/** Whether a write failed because somebody else's came first. */
export function wasOvertaken(error: unknown): boolean {
  return (
    error instanceof StoreError &&
    (error.code === 'revision_mismatch' || error.code === 'already_exists' || error.code === 'not_found')
  );
}
