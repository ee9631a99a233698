import { randomUUID } from 'node:crypto';
import { checkIntegrity, editDatabase, inTransaction } from '../../../base/sqlite-file.ts';
import { endStatuses } from '../../records/run.ts';
import { RunTable } from './run-table.ts';
import { prepareSchema } from './schema.ts';

const RESTORED = 'restored from a backup: the outcome of calls that are not in its journal is unknown';

/**
 * Makes the copy of a queue the start of a new epoch. Runs of earlier epochs that had not ended may have continued after
 * the backup was made; the queue marks their claims. Returns how many there are. `name` is for errors.
 */
export function startQueueEpoch(path: string, name: string): number {
  return editDatabase(path, (db) => {
    checkIntegrity(db, name);
    prepareSchema(db, path);
    const ended = endStatuses.map((status) => `'${status}'`).join(', ');
    let open = 0;
    inTransaction(db, () => {
      // As a node does at its start, which would clear the reason below.
      new RunTable(db).recover();
      db.prepare('UPDATE epoch SET epoch = ?').run(randomUUID());
      const sql = `UPDATE runs SET status_reason = ? WHERE status NOT IN (${ended})`;
      open = Number(db.prepare(sql).run(RESTORED).changes);
    });
    return open;
  });
}
