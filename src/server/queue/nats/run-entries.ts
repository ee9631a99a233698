import type { KV, KvEntry } from '@nats-io/kv';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../../base/json.ts';
import { type RunRecord, type RunStatus, runStatuses } from '../../records/run.ts';
import type { NewRun, ParkedFor } from '../run-queue.ts';
import { isWrongSequence, retryTransient } from './nats-errors.ts';
import type { Body } from './nats-parts.ts';
import { MARKER_TTL_MS } from './streams.ts';

/** Content of an entry. */
export interface StoredRun {
  readonly run: RunRecord;
  /** Revision of the first entry, which orders runs; null in the first entry itself. */
  readonly created: number | null;
  /** Cancellation was requested. */
  readonly cancel: boolean;
  /** Token of the current claim; null: not claimed. */
  readonly claim: string | null;
  readonly input: Body;
  readonly result: Body | null;
  /** Null: not parked. */
  readonly parkedFor: ParkedFor | null;
  /** Node that woke the run for a stream client connected there. @default none */
  readonly wantedBy?: string | null;
  /** Objects to remove with the entry. */
  readonly objects: readonly string[];
}

export interface RunEntry extends StoredRun {
  readonly created: number;
  readonly revision: number;
}

/** Returns the new content; null: no change. */
export type EntryChange = (entry: RunEntry) => StoredRun | null | Promise<StoredRun | null>;

/** Changes an entry. `known`: its probable state, which saves a read. Null: not changed. */
export type ChangeEntry = (id: string, change: EntryChange, known: RunEntry | null) => Promise<RunEntry | null>;

/** The first entry of a run. */
export function newEntry(run: NewRun, inputSha256: string, input: Body): StoredRun {
  const { id, namespace, task, revision, wasm, pool, submittedBy, maxAttempts, retryOf = null } = run;
  const record: RunRecord = {
    ...{ id, namespace, task, revision, wasm, pool, status: 'queued', submitted_by: submittedBy },
    ...{ submitted_at_ms: Date.now(), started_at_ms: null, ended_at_ms: null, attempts: 0 },
    ...{ max_attempts: maxAttempts, node: null, exit: null, cost: null, input_bytes: run.input.byteLength },
    ...{ input_sha256: inputSha256, result_bytes: null, retry_of: retryOf, parked_for: null },
    ...{ traceparent: run.traceparent ?? null, first_submitted_by: run.firstSubmittedBy ?? null },
  };
  const objects = 'object' in input ? [input.object] : [];
  const unclaimed = { created: null, cancel: false, claim: null, result: null, parkedFor: null };
  return { ...unclaimed, run: record, input, objects };
}

/**
 * Entries of runs: one key of the bucket per run, with the run as users see it. Reads go to the leader, because a replica
 * may lag. Changes are compare-and-set on the revision of the entry. The owner of a run is decided by the journal subject
 * (owned-run.ts); the claim in the entry informs the other nodes. An entry that fails validation is no run.
 */
export class RunEntries {
  readonly #kv: KV;
  readonly #patienceMs: number;

  constructor(kv: KV, patienceMs: number) {
    this.#kv = kv;
    this.#patienceMs = patienceMs;
  }

  async get(id: string): Promise<RunEntry | null> {
    return (await this.latest(id)).entry;
  }

  /** The entry with the revision of its last message; null: there is no message, or it is not a valid entry. */
  async latest(id: string): Promise<{ readonly entry: RunEntry | null; readonly revision: number }> {
    const found = await retryTransient(this.#patienceMs, () => this.#kv.get(id));
    return found === null ? { entry: null, revision: 0 } : { entry: toEntry(found), revision: found.revision };
  }

  /** Null: the entry exists already. */
  async create(stored: StoredRun): Promise<RunEntry | null> {
    const { id } = stored.run;
    try {
      const revision = await retryTransient(this.#patienceMs, () => this.#kv.create(id, JSON.stringify(stored)));
      return { ...stored, revision, created: revision };
    } catch (error) {
      if (isWrongSequence(error)) return null;
      throw error;
    }
  }

  /**
   * Compare-and-set loop. `change` may be called again, also with an entry that it has already changed (if the response
   * was lost). `known`: probable state, used before the first read. Null: no such entry, or not changed.
   */
  async change(id: string, change: EntryChange, known: RunEntry | null = null): Promise<RunEntry | null> {
    let guess = known;
    return retryTransient(this.#patienceMs, async () => {
      for (;;) {
        const entry = guess ?? (await this.get(id));
        guess = null;
        const next = entry === null ? null : await change(entry);
        if (entry === null || next === null) return null;
        try {
          const stored = { ...next, created: entry.created, revision: undefined };
          const revision = await this.#kv.update(id, JSON.stringify(stored), entry.revision);
          return { ...next, created: entry.created, revision };
        } catch (error) {
          if (!isWrongSequence(error)) throw error;
        }
      }
    });
  }

  /** False: the entry has changed since. */
  async remove({ run, revision }: RunEntry): Promise<boolean> {
    try {
      await retryTransient(this.#patienceMs, () =>
        this.#kv.purge(run.id, { previousSeq: revision, ttl: `${MARKER_TTL_MS / 1_000}s` }),
      );
      return true;
    } catch (error) {
      if (isWrongSequence(error)) return false;
      throw error;
    }
  }
}

/** Null: the entry was removed or is invalid. */
export function toEntry(entry: KvEntry): RunEntry | null {
  return entry.operation === 'PUT' ? parseEntry(entry.key, entry.string(), entry.revision) : null;
}

/** Null: invalid, written by another client with access to the bucket. */
export function parseEntry(id: string, text: string, revision: number): RunEntry | null {
  const stored: unknown = parseJson(text);
  if (!isEntryOf(id, stored)) return null;
  // Modifies the parsed object: every node does this for every change of every run.
  return Object.assign(stored, { revision, created: stored.created ?? revision });
}

/**
 * Whether all fields that are used unchecked have their type, and all objects belong to this run: a forged entry must
 * neither block a node nor name the input of another run. Hand-written, because it runs for every change of every run.
 */
export function isEntryOf(id: string, value: unknown): value is StoredRun {
  if (!isJsonObject(value) || !isJsonObject(value.run)) return false;
  const { run, created, claim, input, result, parkedFor, objects } = value as Readonly<Record<string, unknown>>;
  const {
    id: own,
    status,
    namespace,
    pool,
    task,
    submitted_by,
    submitted_at_ms,
    attempts,
    degraded,
  } = run as JsonObject;
  return (
    own === id &&
    runStatuses.includes(status as RunStatus) &&
    [namespace, pool, task, submitted_by].every((text) => typeof text === 'string') &&
    [submitted_at_ms, attempts].every(Number.isFinite) &&
    (degraded == null || (Array.isArray(degraded) && degraded.every(isDegradation))) &&
    (created == null || Number.isFinite(created)) &&
    (claim == null || typeof claim === 'string') &&
    isBodyOf(id, input) &&
    (result == null || isBodyOf(id, result)) &&
    (parkedFor == null || isParkedFor(parkedFor)) &&
    Array.isArray(objects) &&
    objects.every((name) => isObjectOf(id, name))
  );
}

function isBodyOf(id: string, body: unknown): body is Body {
  return isJsonObject(body) && (typeof body.inline === 'string' || isObjectOf(id, body.object));
}

const isObjectOf = (id: string, name: unknown) => typeof name === 'string' && name.startsWith(`${id}/`);

const isDegradation = (value: JsonValue): boolean =>
  isJsonObject(value) && typeof value.server === 'string' && typeof value.reason === 'string';

function isParkedFor(value: unknown): value is ParkedFor {
  if (!isJsonObject(value)) return false;
  if (value.kind === 'time') return Number.isFinite(value.atMs);
  return value.kind === 'approval' ? typeof value.request === 'string' : typeof value.kind === 'string';
}

/** Null: the run belongs to another claim. A run that is being cancelled returns to the queue instead. */
export function parkedEntry(now: RunEntry, token: string, attempts: number, until: ParkedFor): StoredRun | null {
  if (now.claim !== token) return null;
  const left = { ...now, claim: null };
  if (now.cancel) return { ...left, run: { ...now.run, status: 'queued', node: null, attempts, status_reason: null } };
  return {
    ...left,
    parkedFor: until,
    run: { ...now.run, ...{ parked_for: until }, status: 'parked', node: null, attempts, status_reason: null },
  };
}

/** Null: the run is not parked. */
export function wokenEntry(now: RunEntry, wantedBy: string | null): StoredRun | null {
  if (now.run.status !== 'parked') return null;
  return { ...now, parkedFor: null, wantedBy, run: { ...now.run, ...{ parked_for: null }, status: 'queued' } };
}

/** Deliveries after which any node may claim a run that another node wants. Counted, because the clocks of nodes differ. */
const WANTED_TIMES = 20;

export function isWantedElsewhere({ wantedBy = null }: RunEntry, node: string, times: number): boolean {
  return wantedBy !== null && wantedBy !== node && times <= WANTED_TIMES;
}
