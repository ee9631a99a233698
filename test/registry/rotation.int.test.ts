import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterEach, expect, it } from 'vitest';
import { fixedToken, type ReadToken } from '../../src/config/registry/registry-endpoint.ts';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { selfSigned } from '../support/certificates.ts';
import { untilRevision, untilStatus } from './cache-events.ts';
import { fsRecord, onStop, startTestSms, stopAll, type TestSms, temporaryDirectory } from './running-sms.ts';

afterEach(stopAll);

const renewed = 'b'.repeat(40);
const timing = { backoff: { firstMs: 20, maxMs: 100 }, refusalGraceMs: 300 };

function follow(sms: TestSms, token: ReadToken): RegistryCache {
  const source = createRemoteSource({ address: sms.sms.grpc, token });
  const cache = new RegistryCache({ source, timing });
  onStop(async () => {
    await cache.close();
    source.close();
  });
  cache.start();
  return cache;
}

it('takes old and new tokens together, and a node whose token went is refused and soon stops [sms.auth.rotation]', async () => {
  const sms = await startTestSms();
  await sms.http('PUT', '/admin/api/mcp/servers/fs', { json: fsRecord });
  const old = follow(sms, fixedToken(sms.nodeToken));
  await untilRevision(old, 1);

  writeFileSync(sms.config.files.nodeToken, `${renewed}\n${sms.nodeToken}\n`);
  await sms.sms.reload();
  const current = { token: sms.nodeToken };
  const moving = follow(sms, () => fixedToken(current.token)());
  await untilRevision(moving, 1);
  await untilRevision(follow(sms, fixedToken(renewed)), 1);
  await sms.http('PUT', '/admin/api/mcp/servers/fs2', { json: { ...fsRecord, server_id: 'fs2' } });
  await untilRevision(old, 2);

  const told: string[] = [];
  old.onStatus(({ state }) => told.push(state));
  const refused = untilStatus(old, ({ state }) => state === 'refused');
  const movingRefused = untilStatus(moving, ({ state }) => state === 'refused');
  writeFileSync(sms.config.files.nodeToken, `${renewed}\n`);
  await sms.sms.reload();
  expect(await refused).toMatchObject({ revision: 2, lastError: expect.stringContaining('unauthenticated') });
  expect(old.view()).toMatchObject({ stale: false });
  await movingRefused;
  // The file of this node has the new token by now.
  current.token = renewed;
  await untilStatus(moving, ({ state }) => state === 'ready');
  await untilStatus(old, ({ state }) => state === 'stale');
  expect(old.view()).toMatchObject({ stale: true });
  expect(told).toEqual(['degraded', 'refused', 'stale']);
});

it('keeps the tokens that it has when a file cannot be used, and says so', async () => {
  const sms = await startTestSms();
  writeFileSync(sms.config.files.adminToken, 'short\n');
  await sms.sms.reload();
  expect(sms.logged.join('\n')).toContain('error tokens_not_reloaded');
  expect((await sms.http('GET', '/admin/api/mcp/servers')).status).toBe(200);
});

it('ends what was granted to a token that is gone, also a stream of events', async () => {
  const sms = await startTestSms();
  const headers = { authorization: `Bearer ${sms.adminToken}` };
  const events = await fetch(`${sms.sms.http}/admin/api/mcp/events`, { headers });
  writeFileSync(sms.config.files.adminToken, `${renewed}\n`);
  await sms.sms.reload();
  await events.text();
  expect((await sms.http('GET', '/admin/api/mcp/servers')).status).toBe(401);
});

it('shows a new certificate after a reload [sms.auth.rotation]', async () => {
  const directory = temporaryDirectory();
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') };
  const write = ({ cert, key }: { cert: string; key: string }) => {
    writeFileSync(files.cert, cert);
    writeFileSync(files.key, key, { mode: 0o600 });
  };
  write(selfSigned());
  const { sms } = await startTestSms({ tls: files });
  const shown = (address: string, alpn: string) =>
    new Promise<string>((resolve, reject) => {
      const port = Number(address.split(':').at(-1));
      const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: [alpn] }, () => {
        resolve(socket.getPeerCertificate().fingerprint256);
        socket.destroy();
      });
      socket.on('error', reject);
    });
  const before = [await shown(sms.grpc, 'h2'), await shown(sms.http, 'http/1.1')];
  write(selfSigned());
  await sms.reload();
  const after = [await shown(sms.grpc, 'h2'), await shown(sms.http, 'http/1.1')];
  expect(new Set([...before, ...after]).size).toBe(2);
  expect(after).not.toEqual(before);
});
