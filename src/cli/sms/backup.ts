import { existsSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { connectLocalSocket } from '../../config/local-socket.ts';
import type { RegistryConfig } from '../../config/registry/registry-config.ts';
import { tokenOfOwnRegistry } from '../../config/registry/registry-endpoint.ts';
import { restoreSqliteStore } from '../../server/store/sqlite-backup.ts';
import { openSqliteStore } from '../../server/store/sqlite-store.ts';
import { writeWhole } from '../write-whole.ts';

const BACKUP_TIMEOUT_MS = 10 * 60_000;

/** Copies the registry, through the process that serves it if there is one. Returns a message. */
export async function backupRegistry(config: RegistryConfig, file: string): Promise<string> {
  const target = resolve(file);
  const response = await askForBackup(config);
  if (response !== null) {
    await writeWhole(target, response);
    return `backup of ${config.files.data} written to ${file} by the serving registry`;
  }
  if (!existsSync(config.files.data)) throw new Error(`no registry at ${config.files.data}`);
  const store = openSqliteStore(config.files.data);
  try {
    await store.backup(target);
  } finally {
    await store.close();
  }
  return `backup of ${config.files.data} written to ${file}`;
}

export async function restoreRegistry(config: RegistryConfig, file: string): Promise<string> {
  await restoreSqliteStore(resolve(file), config.files.data);
  return `${config.files.data} restored from ${file}; it has a new epoch, so nodes fetch all data again`;
}

/** Null: no process serves this data. */
async function askForBackup({ auth, files }: RegistryConfig): Promise<IncomingMessage | null> {
  if (!existsSync(files.httpSocket)) return null;
  const token = auth ? tokenOfOwnRegistry(files.adminToken)() : null;
  const response = await new Promise<IncomingMessage | null>((resolveWith, reject) => {
    const asked = request('http://localhost/admin/api/mcp/backup', {
      method: 'POST',
      createConnection: () => connectLocalSocket(files.httpSocket),
      headers: token === null ? {} : { authorization: `Bearer ${token.reveal()}` },
      signal: AbortSignal.timeout(BACKUP_TIMEOUT_MS),
    });
    asked.once('response', resolveWith);
    asked.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') resolveWith(null);
      else reject(new Error(`the registry at ${files.httpSocket} cannot make a backup: ${error.message}`));
    });
    asked.end();
  });
  if (response !== null && response.statusCode !== 200) {
    throw new Error(`the registry at ${files.httpSocket} refused the backup: ${await text(response)}`);
  }
  return response;
}
