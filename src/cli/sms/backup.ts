import { X509Certificate } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { resolve } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import type { PeerCertificate } from 'node:tls';
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
async function askForBackup(config: SmsConfig, http: string): Promise<IncomingMessage | null> {
  const trust = http.startsWith('https:') ? trustOnly(config) : {};
  const token = config.auth ? (await readFile(config.files.adminToken, 'utf8').catch(() => '')).trim() : '';
  const send = http.startsWith('https:') ? httpsRequest : httpRequest;
  let response: IncomingMessage;
  try {
    response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(`${http}/admin/api/mcp/backup`, {
        ...trust,
        method: 'POST',
        headers: token === '' ? {} : { authorization: `Bearer ${token}` },
        signal: AbortSignal.timeout(BACKUP_TIMEOUT_MS),
      });
      request.once('response', resolve);
      request.once('error', reject);
      request.end();
    });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ECONNREFUSED') return null;
    const advice = http.startsWith('https:') ? '; give --tls-cert and --tls-key as the registry was given them' : '';
    throw new Error(`the registry at ${http} cannot be asked for a backup: ${message}${advice}`);
  }
  if (response.statusCode === 200) return response;
  throw new Error(`the registry at ${http} refused the backup: ${await readAll(response)}`);
}

/**
 * Whoever shows the very certificate that this registry is configured with is it, whoever signed that certificate and
 * whatever names it is for: it is called by its address, and its authority may be known to nobody else here.
 */
function trustOnly({ tls }: SmsConfig) {
  if (tls === null) return {};
  const { cert } = tls;
  const pem = readFileSync(cert);
  const pinned = new X509Certificate(pem);
  return {
    ca: pem,
    allowPartialTrustChain: true,
    checkServerIdentity: (_host: string, shown: PeerCertificate) =>
      shown.raw.equals(pinned.raw) ? undefined : new Error(`its certificate is not that of ${cert}`),
  };
}

async function writeWhole(target: string, response: IncomingMessage): Promise<void> {
  const partial = `${target}.partial`;
  const handle = await open(partial, 'w', PRIVATE_FILE);
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) await handle.write(chunk);
    await handle.sync();
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
  await rename(partial, target);
}
