import type { DatabaseSync } from 'node:sqlite';
import { parseRecord } from '../../protocol/record-parse.ts';
import type { LocalState, StoredServer } from './local-store.ts';

export interface ReadState {
  readonly state: LocalState;
  /** What is wrong with the file, and what to do about it. */
  readonly warnings: readonly string[];
}

/** Everything of an open registry file. A record that cannot be read is left out and does not stop the rest. */
export function readState(db: DatabaseSync, path: string, wasBackup: boolean): ReadState {
  const registry = db.prepare('SELECT epoch, revision, compacted FROM registry').get() as unknown as LocalState;
  const servers = new Map<string, StoredServer>();
  const damaged: string[] = [];
  const warnings: string[] = [];
  if (wasBackup) {
    warnings.push(
      `${path} is a backup that was put in its place; it is another registry now, and every node lists again`,
    );
  }
  for (const row of db.prepare('SELECT server_id, origin, record FROM servers').all()) {
    const serverId = String(row.server_id);
    const read = readRecord(serverId, String(row.record));
    if ('problem' in read) {
      damaged.push(serverId);
      warnings.push(
        `${path}: the stored server "${serverId}" is left out, its record cannot be read (${read.problem}): ` +
          `write it anew with "spear servers apply FILE", or remove it with "spear servers rm ${serverId}"`,
      );
    } else servers.set(serverId, { record: read.record, origin: String(row.origin) });
  }
  const log = db.prepare('SELECT revision, server_id FROM changes ORDER BY revision').all();
  const state = {
    epoch: registry.epoch,
    revision: registry.revision,
    compacted: registry.compacted,
    servers,
    log: log.map((row) => ({ revision: Number(row.revision), serverId: String(row.server_id) })),
    damaged,
  };
  return { state, warnings };
}

/** Parsed like any other input: a record of an older version gets the defaults of fields that came later. */
function readRecord(
  serverId: string,
  text: string,
): { readonly record: StoredServer['record'] } | { readonly problem: string } {
  let input: unknown;
  try {
    input = JSON.parse(text);
  } catch {
    // The parser's own message quotes the text, and that may hold a secret.
    return { problem: 'it is not JSON' };
  }
  const parsed = parseRecord(input, { strict: false });
  if (!parsed.ok) {
    const [issue] = parsed.issues;
    return { problem: `${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`.trim() };
  }
  if (parsed.record.server_id !== serverId) return { problem: 'server_id is that of another server' };
  return { record: parsed.record };
}
