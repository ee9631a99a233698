import { type RecordIn, type RecordStoreName, recordKinds } from '../records/kinds.ts';
import type { RecordKind, RegistryEvent, RegistryListing, StoreStamps } from '../records/record-kind.ts';
import type { McpServerRecord } from '../records/server.ts';

export interface WriteOptions {
  /** Write only if the stored record has this mod_revision; 0: only if there is none. */
  readonly ifModRevision?: number;
}

export interface UpsertOptions extends WriteOptions {
  /**
   * Where the content comes from, stored beside the record. It changes only together with the content: writing the same
   * content again does not change the owner of the record.
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
  /** Number of changes; an upsert with the stored content is not a change. */
  readonly changed: number;
}

export interface UpsertResult<R = McpServerRecord> {
  /** The revision of the store after this call. */
  readonly revision: number;
  /** As stored: with `updated_at_ms` and `mod_revision`. */
  readonly record: R;
  /** False if the stored record already had this content; then there is no new revision. */
  readonly changed: boolean;
}

/**
 * The store of one kind of record.
 *
 * Invariants
 * - Revisions start at 0, increase strictly with every change and may skip numbers. They survive restarts and never go back
 *   within one epoch.
 * - A write that cannot be made durable fails with `not_stored` and changes nothing; reads continue to work.
 * - If other processes write to the same store, a write may fail with `outcome_unknown` (it may be stored) or `not_visible`
 *   (it is stored, and not yet readable here), and every method with `not_current`.
 * - All methods reject with StoreError; after `close` always with `closed`.
 */
export interface RegistryStore<R extends StoreStamps = McpServerRecord> extends StoreReader<R> {
  /** Durable when the promise resolves. `revision_mismatch`, `not_found`, `already_exists` (ifModRevision 0). */
  upsert(record: R, options?: UpsertOptions): Promise<UpsertResult<R>>;
  /** The revision of the removal. `not_found`, `revision_mismatch`. */
  remove(id: string, options?: WriteOptions): Promise<number>;
  /**
   * Writes all changes, each to another record, or none of them; durable when the promise resolves. Watchers receive one
   * event, never a part. Fails like `upsert` and `remove`, for the first change that is not possible. Yields to the event
   * loop during thousands of changes.
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
   * The changes after `since` as one event, then every later change, without a gap: the start is fixed when `watch` is
   * called. `since` 0 returns all records, even if the log was compacted. The iteration fails with `compacted`,
   * `future_revision`, `lagging` (the reader was too slow) or `closed`, and ends on `signal`.
   */
  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryEvent<R>>;
  /** Resolves when every change that any process acknowledged before the call is readable here. */
  upToDate(): Promise<void>;
  /** Why reads may be out of date and therefore fail: the backend is unreachable. Null: reads are current. */
  currencyProblem(): string | null;
  close(): Promise<void>;
}

/** One store for every kind of record. Each kind has its own revisions. */
export type RecordStores = { readonly [Name in RecordStoreName]: RegistryStore<RecordIn<Name>> };

/** Opens the store of every kind. */
export function storesOf(open: <R extends StoreStamps>(kind: RecordKind<R>) => RegistryStore<R>): RecordStores {
  const stores = Object.entries(recordKinds).map(([name, kind]) => [name, open(kind as RecordKind<never>)]);
  return Object.fromEntries(stores) as RecordStores;
}

export const recordStoreNames = Object.keys(recordKinds) as readonly RecordStoreName[];

/** One of the stores, for code that treats all kinds alike. */
export function storeNamed(stores: RecordStores, name: RecordStoreName): RegistryStore<StoreStamps> {
  return stores[name] as unknown as RegistryStore<StoreStamps>;
}

/** The database of a registry: the stores of all kinds, which are closed together. */
export interface RegistryDatabase extends RecordStores {
  /** What was wrong with the stored data, and advice to the operator. The stores serve everything else. */
  readonly warnings: readonly string[];
  /** Why changes cannot be stored, or null. Tries a write if the last write was too long ago. */
  writeProblem(): string | null;
  /** Writes a consistent copy to `path` without blocking writes. Null: copies are made by the database server. */
  readonly backup: ((path: string) => Promise<void>) | null;
  close(): Promise<void>;
}

export const DEFAULT_ORIGIN = 'api';

/** Changes retained for watchers that reconnect; a watcher that missed more must list again. */
export const DEFAULT_KEPT_CHANGES = 10_000;

/** Events buffered for one watcher before it is disconnected. */
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

/** Whether a write failed because of a concurrent write. */
export function wasOvertaken(error: unknown): boolean {
  return (
    error instanceof StoreError &&
    (error.code === 'revision_mismatch' || error.code === 'already_exists' || error.code === 'not_found')
  );
}

/** @throws StoreError if the stored record is not at the revision that the writer expects */
export function checkCondition<R extends StoreStamps>(
  { name }: RecordKind<R>,
  id: string,
  current: StoreStamps | null,
  { ifModRevision: wanted }: WriteOptions,
): void {
  const found = current?.mod_revision ?? 0;
  if (wanted === undefined || wanted === found) return;
  if (wanted === 0) throw new StoreError('already_exists', `${name} "${id}" already exists`);
  if (current === null) throw notFound(name, id);
  const message = `${name} "${id}" is at revision ${found}; the write expected revision ${wanted}`;
  throw new StoreError('revision_mismatch', message);
}

export function notFound(kind: string, id: string): StoreError {
  return new StoreError('not_found', `there is no ${kind} "${id}"`);
}
