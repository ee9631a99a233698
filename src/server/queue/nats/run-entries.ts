import type { KV, KvEntry } from '@nats-io/kv';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../../base/json.ts';
import { type RunRecord, type RunStatus, runStatuses } from '../../records/run.ts';
import type { NewRun, ParkedFor } from '../run-queue.ts';
import { isWrongSequence, patiently } from './nats-errors.ts';
import type { Body } from './nats-parts.ts';
import { MARKER_TTL_MS } from './streams.ts';

/** A run as its entry has it. */
export interface StoredRun {
  readonly run: RunRecord;
  /** The revision that it was made with: the order of runs. Null in the first one, whose revision it is. */
  readonly created: number | null;
  /** Somebody wants it to end. */
  readonly cancel: boolean;
  /** Whose it is; null: nobody's. */
  readonly claim: string | null;
  readonly input: Body;
  readonly result: Body | null;
  /** Null: it is not parked. */
  readonly parkedFor: ParkedFor | null;
  /** The node that woke it for somebody who is connected there. @default no node did */
  readonly wantedBy?: string | null;
  /** To be removed with it. */
  readonly objects: readonly string[];
}

export interface RunEntry extends StoredRun {
  readonly created: number;
  readonly revision: number;
}

/** What an entry becomes; null: it stays as it is. */
export type EntryChange = (entry: RunEntry) => StoredRun | null | Promise<StoredRun | null>;

/** Changes an entry; `known`: as it probably is. Null: it was left. */
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
  const nobodys = { created: null, cancel: false, claim: null, result: null, parkedFor: null };
  return { ...nobodys, run: record, input, objects };
}

/** The entries of runs. What is read here comes from the leader, not from a copy that may be behind. */
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

  /** The entry with the revision of its last message; null: the message is no entry of that run, or there is none. */
  async latest(id: string): Promise<{ readonly entry: RunEntry | null; readonly revision: number }> {
    const found = await patiently(this.#patienceMs, () => this.#kv.get(id));
    return found === null ? { entry: null, revision: 0 } : { entry: toEntry(found), revision: found.revision };
  }

  /** Null: there is one already. */
  async create(stored: StoredRun): Promise<RunEntry | null> {
    const { id } = stored.run;
    try {
      const revision = await patiently(this.#patienceMs, () => this.#kv.create(id, JSON.stringify(stored)));
      return { ...stored, revision, created: revision };
    } catch (error) {
      if (isWrongSequence(error)) return null;
      throw error;
    }
  }

  /**
   * Changes an entry as it is at that moment; `change` gives null to leave it, may be asked again, and must know its own
   * work when it sees it. `known`: as it probably is; it is read where it is not. Null: there is none, or it was left.
   */
  async change(id: string, change: EntryChange, known: RunEntry | null = null): Promise<RunEntry | null> {
    let guess = known;
    return patiently(this.#patienceMs, async () => {
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

  /** False: it has changed since. */
  async remove({ run, revision }: RunEntry): Promise<boolean> {
    try {
      await patiently(this.#patienceMs, () =>
        this.#kv.purge(run.id, { previousSeq: revision, ttl: `${MARKER_TTL_MS / 1_000}s` }),
      );
      return true;
    } catch (error) {
      if (isWrongSequence(error)) return false;
      throw error;
    }
  }
}

/** Null: it was removed, or is no entry of that run. */
export function toEntry(entry: KvEntry): RunEntry | null {
  return entry.operation === 'PUT' ? parseEntry(entry.key, entry.string(), entry.revision) : null;
}

/** Null: somebody has written something else there, who has the credentials for it. */
export function parseEntry(id: string, text: string, revision: number): RunEntry | null {
  const stored: unknown = parseJson(text);
  if (!isEntryOf(id, stored)) return null;
  // Written into what was parsed: every node does this for every change of every run.
  return Object.assign(stored, { revision, created: stored.created ?? revision });
}

/**
 * Whether everything in it that is used without another look has its type, and its bodies are objects of this run: an
 * entry that was forged is no run, and cannot hold up a node or name the input of another run. It is looked at for every
 * change of every run.
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

/** Null: it is not that claim's. One that somebody wants to end does not stay parked. */
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

/** Null: it is not parked. */
export function wokenEntry(now: RunEntry, wantedBy: string | null): StoredRun | null {
  if (now.run.status !== 'parked') return null;
  return { ...now, parkedFor: null, wantedBy, run: { ...now.run, ...{ parked_for: null }, status: 'queued' } };
}

/** So often it is given back for the node that wants it; then whoever has a slot takes it. */
const WANTED_TIMES = 20;

/** Counted, not timed: the clocks of nodes may differ. */
export function isWantedElsewhere({ wantedBy = null }: RunEntry, node: string, times: number): boolean {
  return wantedBy !== null && wantedBy !== node && times <= WANTED_TIMES;
}
