import type { DatabaseSync } from 'node:sqlite';
import { idOf, type RecordKind, type StoreStamps } from '../../protocol/record-kind.ts';
import type { LocalState } from './local-store.ts';
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
    const read = readRecord(kind, id, String(row.record));
    if ('problem' in read) {
      damaged.push(id);
      warnings.push(
        `${path}: the stored ${kind.name} "${id}" is left out, its record cannot be read (${read.problem}): ` +
          kind.mending(id),
      );
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

/** Parsed like any other input: a record of an older version gets the defaults of fields that came later. */
function readRecord<R extends StoreStamps>(
  kind: RecordKind<R>,
  id: string,
  text: string,
): { readonly record: R } | { readonly problem: string } {
  let input: unknown;
  try {
    input = JSON.parse(text);
  } catch {
    // The parser's own message quotes the text, and that may hold a secret.
    return { problem: 'it is not JSON' };
  }
  const parsed = kind.parse(input, { strict: false });
  if (!parsed.ok) {
    const [issue] = parsed.issues;
    return { problem: `${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`.trim() };
  }
  if (idOf(kind, parsed.record) !== id) return { problem: `${kind.idField} is that of another ${kind.name}` };
  return { record: parsed.record };
}
