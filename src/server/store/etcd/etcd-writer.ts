import { randomUUID } from 'node:crypto';
import { errorText } from '../../../base/errors.ts';
import { TimeSlice } from '../../../base/timing.ts';
import { contentKey, idOf, type StoreStamps, sameContent } from '../../records/record-kind.ts';
import { closedError } from '../record-memory.ts';
import { checkCondition, DEFAULT_ORIGIN, notFound, type StoreChange, StoreError } from '../store.ts';
import type { EtcdClient } from './etcd-client.ts';
import { bytesOf, type Condition, type EtcdKeys, keyAbsent, type Operation, put, range, rangeOf } from './etcd-keys.ts';
import type { AnyKindMirror } from './etcd-mirror.ts';
import { type KindMirror, recordText } from './kind-mirror.ts';

/** Deadline of all attempts of one write. */
export const WRITE_MS = 10_000;
/** Far longer than a write can be in flight. */
const FENCE_SECONDS = 3_600;
const FENCE_RENEW_MS = (FENCE_SECONDS / 2) * 1_000;

/** A conditional write. If the conditions hold, the operations and the kind's head are written together. */
export interface ConditionalWrite {
  readonly conditions: readonly Condition[];
  /** Empty: only the conditions are checked. */
  readonly operations: readonly Operation[];
}

/** `done`: the revision of the write. Otherwise a condition does not hold, and `head` is the current revision of the kind. */
export type WriteOutcome = { readonly done: bigint } | { readonly head: bigint };

/** The part of a kind's mirror that the writer needs. */
type WrittenKind = Pick<AnyKindMirror, 'kind' | 'reached'> & {
  revisionOfWrite(write: string): bigint | undefined;
};

/**
 * Writes at most once, even if the response is lost. Every write has an id, which the head of its kind stores. A write that may
 * still be in flight when it is retried is fenced by its id first.
 */
export class EtcdWriter {
  readonly #client: EtcdClient;
  readonly #keys: EtcdKeys;
  readonly #signal: AbortSignal;
  #lease: { readonly id: bigint; readonly atMs: number } | null = null;

  constructor(client: EtcdClient, keys: EtcdKeys, signal: AbortSignal) {
    this.#client = client;
    this.#keys = keys;
    this.#signal = signal;
  }

  /** @throws StoreError `not_stored`, `outcome_unknown` */
  async write(kind: WrittenKind, { conditions, operations }: ConditionalWrite): Promise<WriteOutcome> {
    const write = randomUUID();
    const endsAt = performance.now() + WRITE_MS;
    const head = this.#keys.head(kind.kind.name);
    const fence = this.#keys.fence(write);
    let mayHaveBeenMade = false;
    try {
      const answer = await this.#client.ask(
        async ({ kv }, options) => {
          const closing = mayHaveBeenMade ? [put(fence, bytesOf(''), await this.#fenceLease())] : [];
          const request = {
            compare: [keyAbsent(fence), ...conditions],
            success: operations.length === 0 ? [range(head)] : [...operations, put(head, bytesOf(write)), ...closing],
            failure: [range(head)],
          };
          return kv.txn(request, options);
        },
        {
          deadlineMs: WRITE_MS,
          signal: this.#signal,
          onDoubt: () => {
            mayHaveBeenMade = operations.length > 0;
          },
        },
      );
      if (answer.succeeded && operations.length > 0) return { done: answer.header?.revision ?? 0n };
      const [found] = rangeOf(answer.responses[0]);
      if (answer.succeeded) return { done: found?.modRevision ?? 0n };
      if (!mayHaveBeenMade) return { head: found?.modRevision ?? 0n };
      return await this.#findOut(kind, write, endsAt);
    } catch (error) {
      if (this.#signal.aborted) throw closedError();
      throw notWritten(error, mayHaveBeenMade);
    }
  }

  /** A condition does not hold, perhaps because an earlier attempt of the same write succeeded. */
  async #findOut(kind: WrittenKind, write: string, endsAt: number): Promise<WriteOutcome> {
    const lease = await this.#fenceLease();
    const request = {
      success: [put(this.#keys.fence(write), bytesOf(''), lease), range(this.#keys.head(kind.kind.name))],
    };
    const leftMs = () => Math.max(1, endsAt - performance.now());
    const answer = await this.#client.ask(({ kv }, options) => kv.txn(request, options), {
      deadlineMs: leftMs(),
      signal: this.#signal,
    });
    const head = rangeOf(answer.responses[1])[0]?.modRevision ?? 0n;
    if (!(await kind.reached(head, leftMs(), this.#signal))) {
      throw new Error(`this registry did not receive revision ${head} in time`);
    }
    const done = kind.revisionOfWrite(write);
    return done === undefined ? { head } : { done };
  }

  async #fenceLease(): Promise<bigint> {
    if (this.#lease === null || performance.now() - this.#lease.atMs > FENCE_RENEW_MS) {
      const atMs = performance.now();
      const request = { TTL: BigInt(FENCE_SECONDS) };
      const { ID: id } = await this.#client.ask(({ lease }, options) => lease.leaseGrant(request, options), {
        deadlineMs: WRITE_MS,
        signal: this.#signal,
      });
      this.#lease = { id, atMs };
    }
    return this.#lease.id;
  }
}

function notWritten(error: unknown, mayHaveBeenMade: boolean): StoreError {
  if (error instanceof StoreError) return error;
  const why = errorText(error);
  if (mayHaveBeenMade) {
    const message = `unknown whether the change was stored: ${why}; check before you retry`;
    return new StoreError('outcome_unknown', message, error);
  }
  return new StoreError('not_stored', `nothing was changed: ${why}`, error);
}

/** The effect of one change on its key, by the state of the mirror. */
export interface PlannedChange<R> {
  readonly id: string;
  /** The new text of the key; null: removed. Undefined: unchanged. */
  readonly text: string | null | undefined;
  /** The record without the revision that etcd assigns; null: removed. */
  readonly record: R | null;
}

export interface Plan<R> {
  readonly changes: readonly PlannedChange<R>[];
  /** The first change that is not possible; `changes` are those before it. */
  readonly refusal: StoreError | null;
}

/** A change with its text, which is expensive and does not depend on the plan. */
export interface PreparedChange<R> {
  readonly change: StoreChange<R>;
  readonly id: string;
  readonly content: string;
}

/** @throws TypeError if two changes have the same record */
export async function prepared<R extends StoreStamps>(
  { kind }: KindMirror<R>,
  changes: readonly StoreChange<R>[],
): Promise<PreparedChange<R>[]> {
  const slice = new TimeSlice();
  const made: PreparedChange<R>[] = [];
  const named = new Set<string>();
  for (const change of changes) {
    if (slice.isOver) await slice.yield();
    const id = 'remove' in change ? change.remove : idOf(kind, change.upsert);
    if (named.size === named.add(id).size) throw new TypeError(`"${id}" is changed twice in one batch`);
    made.push({ change, id, content: 'remove' in change ? '' : contentKey(change.upsert) });
  }
  return made;
}

export function plan<R extends StoreStamps>(
  mirror: KindMirror<R>,
  changes: readonly PreparedChange<R>[],
  updatedAtMs: number,
): Plan<R> {
  const planned: PlannedChange<R>[] = [];
  for (const { change, id, content } of changes) {
    const current = mirror.memory.get(id)?.record ?? null;
    try {
      checkCondition(mirror.kind, id, current, change);
      if ('remove' in change && current === null && !mirror.isDamaged(id)) throw notFound(mirror.kind.name, id);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return { changes: planned, refusal: error };
    }
    if ('remove' in change) planned.push({ id, text: null, record: null });
    else if (current !== null && sameContent(current, change.upsert)) {
      planned.push({ id, text: undefined, record: current });
    } else {
      const origin = change.origin ?? DEFAULT_ORIGIN;
      const text = recordText({ content, origin, updatedAtMs, at: null });
      planned.push({ id, text, record: { ...change.upsert, updated_at_ms: updatedAtMs } });
    }
  }
  return { changes: planned, refusal: null };
}
