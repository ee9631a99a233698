import { existsSync } from 'node:fs';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { readEndpointFile } from '../../config/sms/client.ts';
import type { SmsConfig } from '../../config/sms/sms-config.ts';
import { restoreSqliteStore } from '../../sms/store/sqlite-backup.ts';
import { openSqliteStore } from '../../sms/store/sqlite-store.ts';

const PRIVATE_FILE = 0o600;
const BACKUP_TIMEOUT_MS = 10 * 60_000;

/** Copies the registry: through the process that serves it, where there is one. Returns what to tell the user. */
export async function backupRegistry(config: SmsConfig, file: string): Promise<string> {
  const target = resolve(file);
  const running = readEndpointFile(config.files.endpoint);
  const response = running === null ? null : await askForBackup(config, running.http);
  if (response !== null) {
    await writeWhole(target, response);
    return `backup of ${config.files.data} written to ${file} by the serving registry`;
  }
  if (!existsSync(config.files.data)) throw new Error(`there is no registry at ${config.files.data}`);
  const store = openSqliteStore(config.files.data);
  try {
    await store.backup(target);
  } finally {
    await store.close();
  }
  return `backup of ${config.files.data} written to ${file}`;
}

export async function restoreRegistry(config: SmsConfig, file: string): Promise<string> {
  await restoreSqliteStore(resolve(file), config.files.data);
  return `${config.files.data} restored from ${file}; it has a new epoch, so every node lists again`;
}

/** Null: nobody serves there, so the file is left over from a process that was killed. */
async function askForBackup(config: SmsConfig, http: string): Promise<Response | null> {
  const token = config.auth ? (await readFile(config.files.adminToken, 'utf8').catch(() => '')).trim() : '';
  let response: Response;
  try {
    response = await fetch(`${http}/admin/api/mcp/backup`, {
      method: 'POST',
      headers: token === '' ? {} : { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(BACKUP_TIMEOUT_MS),
    });
  } catch {
    return null;
  }
  if (!response.ok) throw new Error(`the registry at ${http} refused the backup: ${await response.text()}`);
  return response;
}

async function writeWhole(target: string, response: Response): Promise<void> {
  const partial = `${target}.partial`;
  const handle = await open(partial, 'w', PRIVATE_FILE);
  try {
    for await (const chunk of response.body ?? []) await handle.write(chunk);
    await handle.sync();
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
  await rename(partial, target);
}
