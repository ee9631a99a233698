import type { DatabaseSync } from 'node:sqlite';
import type { RecordKind, StoreStamps } from '../records/record-kind.ts';
import type { LocalState } from './local-store.ts';
import { leftOut, readRecordText } from './read-record.ts';
import type { Stored } from './record-memory.ts';

export interface ReadState<R> {
  readonly state: LocalState<R>;
  /** What is wrong with the file, and what to do about it. */
  readonly warnings: readonly string[];
}

/** All records of a kind in an open registry file. One that cannot be read is left out and does not stop the rest. */
export function readState<R extends StoreStamps>(db: DatabaseSync, path: string, kind: RecordKind<R>): ReadState<R> {
  const registry = db.prepare('SELECT epoch FROM registry').get();
  const revisions = db.prepare('SELECT revision, compacted FROM kinds WHERE kind = ?').get(kind.name);
  const records = new Map<string, Stored<R>>();
  const damaged: string[] = [];
  const warnings: string[] = [];
  for (const row of db.prepare('SELECT id, origin, record FROM records WHERE kind = ?').all(kind.name)) {
    const id = String(row.id);
    const read = readRecordText(kind, id, String(row.record));
    if ('problem' in read) {
      damaged.push(id);
      warnings.push(leftOut(path, kind, id, read.problem));
    } else records.set(id, { record: read.record, origin: String(row.origin) });
  }
  const log = db.prepare('SELECT revision, id FROM changes WHERE kind = ? ORDER BY revision').all(kind.name);
  const state = {
    epoch: String(registry?.epoch ?? ''),
    revision: Number(revisions?.revision ?? 0),
    compacted: Number(revisions?.compacted ?? 0),
    records,
    log: log.map((row) => ({ revision: Number(row.revision), id: String(row.id) })),
    damaged,
  };
  return { state, warnings };
}
