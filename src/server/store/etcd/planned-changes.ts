import { Turns } from '../../../base/turns.ts';
import { contentKey, idOf, type StoreStamps, sameContent } from '../../records/record-kind.ts';
import { DEFAULT_ORIGIN, type StoreChange, StoreError } from '../store.ts';
import { checkCondition, notFound } from '../write-conditions.ts';
import { recordText } from './etcd-record.ts';
import type { KindMirror } from './kind-mirror.ts';

/** What one change does to its key, judged by what the mirror has. */
export interface PlannedChange<R> {
  readonly id: string;
  /** As its key is to be; null: removed. Undefined: it is so already. */
  readonly text: string | null | undefined;
  /** Without its revision, which etcd gives it; null: removed. */
  readonly record: R | null;
}

export interface Plan<R> {
  readonly changes: readonly PlannedChange<R>[];
  /** The first reason why it cannot be done, as things are; the changes are those before. */
  readonly refusal: StoreError | null;
}

/** A change whose text is made: that takes time and is the same however often it is planned. */
export interface PreparedChange<R> {
  readonly change: StoreChange<R>;
  readonly id: string;
  readonly content: string;
}

/** @throws TypeError where two changes are of one record */
export async function prepared<R extends StoreStamps>(
  { kind }: KindMirror<R>,
  changes: readonly StoreChange<R>[],
): Promise<PreparedChange<R>[]> {
  const turns = new Turns();
  const made: PreparedChange<R>[] = [];
  const named = new Set<string>();
  for (const change of changes) {
    if (turns.over) await turns.next();
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
