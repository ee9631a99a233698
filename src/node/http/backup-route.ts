import { once } from 'node:events';
import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import { currentCaller } from '../../server/identity/caller.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { ALL_NAMESPACES } from '../../server/records/permissions.ts';
import { type BackupSource, backupOf } from '../backup/node-backup.ts';
import type { NodeRoute } from './node-route.ts';

/** A reader that takes nothing for this long is disconnected. */
const SLOW_READER_MS = 30_000;
export const BACKUP_PATH = '/v1/backup';

/** A backup of the node, one at a time. `source` is null if the runs are in NATS. It has all journals, so the audit log records it. */
export function backupRoute(source: BackupSource | null, trail: Pick<SmsTrail, 'write'>, log: ServiceLog): NodeRoute {
  let busy = false;
  return {
    method: 'POST',
    path: BACKUP_PATH,
    needs: 'administer',
    doc: {
      summary: 'Streams a consistent backup of runs, journals, tasks and modules, as "spearlet restore" takes it',
      answers: {
        200: { what: 'a tar archive', type: 'application/x-tar' },
        409: { what: 'the runs of this node are in NATS' },
        503: { what: 'another backup is in progress' },
      },
    },
    async run({ response, signal, caller }) {
      if (caller.namespace !== ALL_NAMESPACES || !caller.mayReadJournals) {
        const detail =
          'a backup has the journals of all namespaces: it needs an admin of all of them who may read journals';
        throw new HttpProblem(403, 'not-permitted', detail);
      }
      if (source === null) {
        const detail = 'the runs of this node are in NATS: back up its JetStream store, see docs/cluster.md#backup';
        throw new HttpProblem(409, 'kept-elsewhere', detail);
      }
      if (busy) throw new HttpProblem(503, 'backup-running', 'another backup is in progress');
      busy = true;
      const bytes = backupOf(source);
      try {
        const first = await bytes.next(); // fails before the status is sent
        response.writeHead(200, { 'content-type': 'application/x-tar', 'cache-control': 'no-store' });
        trail.write({ event: 'sms.served', ...currentCaller(), code: '200' });
        log('info', 'backup', { by: caller.name });
        let sent = first.done === true ? 0 : await write(first.value);
        for await (const chunk of bytes) {
          signal.throwIfAborted();
          sent += await write(chunk);
        }
        response.end();
        log('info', 'backup_done', { bytes: sent });
      } catch (error) {
        if (!response.headersSent) throw error;
        response.destroy(); // the reader finds no manifest
        log('error', 'backup_failed', { message: String(error) });
      } finally {
        await bytes.return(undefined); // removes the copies
        busy = false;
      }
      return 'streamed';

      async function write(chunk: Uint8Array): Promise<number> {
        const deadline = AbortSignal.any([signal, AbortSignal.timeout(SLOW_READER_MS)]);
        if (!response.write(chunk)) await once(response, 'drain', { signal: deadline });
        return chunk.byteLength;
      }
    },
  };
}
