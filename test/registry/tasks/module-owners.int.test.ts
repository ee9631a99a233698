import { readdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { Blobs } from '../../../src/server/tasks/blobs.ts';
import { createToken } from '../../server/identity/token-calls.ts';
import { startTestSms, stopAll, temporaryDirectory } from '../running-sms.ts';
import { applyTask, hello, helloSha256, putBlob } from './task-calls.ts';

afterEach(stopAll);

it('lets a namespace use a digest only if it uploaded the module or has it in a revision [sms.blobs.namespace]', async () => {
  const sms = await startTestSms();
  const operator = (namespace: string) => createToken(sms, { name: `op-${namespace}`, roles: ['operator'], namespace });
  const [a, b] = [await operator('team-a'), await operator('team-b')];
  const apply = (token: string, namespace: string) => applyTask(sms, { name: 'notes', namespace }, { token });
  expect((await putBlob(sms, hello, a)).status).toBe(201);
  expect((await apply(a, 'team-a')).status).toBe(200);
  const borrowed = await apply(b, 'team-b');
  expect([borrowed.status, borrowed.body.detail]).toEqual([
    400,
    `wasm: module ${helloSha256} is not stored; PUT /admin/api/blobs/${helloSha256} first`,
  ]);
  expect((await sms.http('GET', `/admin/api/blobs/${helloSha256}`, { token: b })).status).toBe(404);
  // The digest of a stored module is not enough: the body must be the module.
  expect((await putBlob(sms, Buffer.alloc(0), b, helloSha256)).status).toBe(400);
  expect((await apply(b, 'team-b')).status).toBe(400);
  expect((await putBlob(sms, hello, b)).status).toBe(201);
  await sms.restart();
  expect((await apply(b, 'team-b')).status).toBe(200);
  expect((await sms.http('GET', `/admin/api/blobs/${helloSha256}`, { token: b })).status).toBe(200);
});

it('lets a namespace use modules of its revisions that were stored before uploads were recorded [sms.blobs.namespace]', async () => {
  const sms = await startTestSms();
  // An admin of all namespaces leaves no record of an upload, as earlier versions did for every caller.
  expect((await putBlob(sms, hello)).status).toBe(201);
  expect((await applyTask(sms, { name: 'notes', namespace: 'team-a' })).status).toBe(200);
  expect(readdirSync(sms.config.files.blobs)).toEqual([`${helloSha256}.wasm`]);
  const token = await createToken(sms, { name: 'op', roles: ['operator'], namespace: 'team-a' });
  expect((await applyTask(sms, { name: 'other', namespace: 'team-a' }, { token })).status).toBe(200);
});

it('forgets an upload with the modules that no revision has', async () => {
  const directory = join(temporaryDirectory(), 'blobs');
  const blobs = new Blobs(directory);
  await blobs.put(hello, 'team-a');
  expect([blobs.isUploadedBy('team-a', helloSha256), blobs.isUploadedBy('team', helloSha256)]).toEqual([true, false]);
  utimesSync(join(directory, `${helloSha256}.team-a.upload`), 1, 1);
  blobs.removeStale(2_000);
  expect([blobs.isUploadedBy('team-a', helloSha256), blobs.has(helloSha256)]).toEqual([false, true]);
});
