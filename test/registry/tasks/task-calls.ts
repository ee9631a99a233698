import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { HttpAnswer, TestSms } from '../running-sms.ts';

export const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));

export const hello = readFileSync(fixture('c/hello.wasm'));
export const helloSha256 = hash('sha256', hello);

export async function putBlob(sms: TestSms, bytes: Uint8Array, token = sms.adminToken, sha256 = hash('sha256', bytes)) {
  const response = await fetch(`${sms.sms.http}/admin/api/blobs/${sha256}`, {
    method: 'PUT',
    body: new Uint8Array(bytes),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/wasm' },
  });
  return { status: response.status, text: await response.text() };
}

/** Applies a task whose module is there. */
export function applyTask(
  sms: TestSms,
  task: Readonly<Record<string, unknown>>,
  options: { readonly token?: string; readonly at?: string } = {},
): Promise<HttpAnswer> {
  const path = options.at ?? `${String(task.namespace ?? 'default')}/${String(task.name)}`;
  const json = { wasm: `sha256:${helloSha256}`, ...task };
  return sms.http('PUT', `/admin/api/tasks/${path}`, { json, ...(options.token ? { token: options.token } : {}) });
}
