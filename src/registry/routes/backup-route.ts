import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { HttpProblem } from '../../server/http/problem.ts';
import type { HttpCall } from '../../server/http/route.ts';
import type { RegistryDatabase } from '../../server/store/store.ts';
import type { Route } from './http-listener.ts';
import { ADMIN_PATH } from './servers-routes.ts';

const SEND_TIMEOUT_MS = 10 * 60_000;

/** `POST /backup` answers with a consistent copy of the whole registry, secrets included. One at a time. */
export function backupRoute(store: Pick<RegistryDatabase, 'backup'>, dataFile: string): Route {
  let busy = false;
  return {
    method: 'POST',
    path: `${ADMIN_PATH}/backup`,
    needs: 'administer',
    async run(call) {
      if (store.backup === null) {
        const detail =
          'this registry is stored in etcd: back it up with etcdctl snapshot save, or copy it with spear-sms migrate';
        throw new HttpProblem(409, 'kept-elsewhere', detail);
      }
      if (busy) throw new HttpProblem(503, 'backup-running', 'another backup is in progress');
      busy = true;
      try {
        return await sendBackup((copy) => store.backup?.(copy), `${dataFile}.backup`, call);
      } finally {
        busy = false;
      }
    },
  };
}

async function sendBackup(
  backup: (copy: string) => Promise<void> | undefined,
  copy: string,
  { response, signal }: HttpCall,
): Promise<'streamed'> {
  try {
    await backup(copy);
    const { size } = await stat(copy);
    response.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-length': String(size),
      'cache-control': 'no-store',
    });
    // A client that leaves has its own reasons; there is nobody left to tell.
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(SEND_TIMEOUT_MS)]);
    await pipeline(createReadStream(copy), response, { signal: deadline }).catch(() => {});
  } finally {
    await rm(copy, { force: true });
  }
  return 'streamed';
}
