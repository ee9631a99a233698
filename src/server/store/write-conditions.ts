import type { RecordKind, StoreStamps } from '../records/record-kind.ts';
import { StoreError, type WriteOptions } from './store.ts';

/** @throws StoreError where the record that is there is not the one that the writer means */
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
