import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { SqliteStore } from '../store/sqlite-store.ts';
import type { HttpCall } from './http-call.ts';
import type { Route } from './http-listener.ts';
import { ADMIN_PATH } from './servers-routes.ts';

/** `POST /backup` answers with a consistent copy of the whole registry, secrets included. */
export function backupRoute(store: SqliteStore, dataFile: string): Route {
  return {
    method: 'POST',
    path: `${ADMIN_PATH}/backup`,
    needs: 'admin',
    run: (call) => sendBackup(store, dataFile, call),
  };
}

async function sendBackup(store: SqliteStore, dataFile: string, { response, signal }: HttpCall): Promise<'streamed'> {
  const copy = `${dataFile}.backup-${randomUUID()}`;
  try {
    await store.backup(copy);
    const { size } = await stat(copy);
    response.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-length': String(size),
      'cache-control': 'no-store',
    });
    // A client that leaves has its own reasons; there is nobody left to tell.
    await pipeline(createReadStream(copy), response, { signal }).catch(() => {});
  } finally {
    await rm(copy, { force: true });
  }
  return 'streamed';
}
