import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadRegistryConfig } from '../../../../src/config/registry/registry-config.ts';
import { openEtcdStore } from '../../../../src/server/store/etcd/etcd-store.ts';
import { newAuthority } from '../../../support/certificates.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { fastest } from '../../../support/fastest.ts';
import { sampleRecord } from '../../records/server-samples.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-etcd-security-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function written(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

const authority = newAuthority();
const other = newAuthority('another');
for (const [name, { cert, key }] of Object.entries({
  server: authority.issue('etcd'),
  root: authority.issue('root'),
  sms: authority.issue('sms'),
  stranger: other.issue('root'),
})) {
  written(`${name}.pem`, cert);
  written(`${name}.key`, key);
}
const ca = written('ca.pem', authority.cert);
written('other-ca.pem', other.cert);
written('right', 'the right password');
written('wrong', 'the wr0ng password');

const flags = ['--cert-file', join(folder, 'server.pem'), '--key-file', join(folder, 'server.key')];
const withTls = useEtcd({ members: 1, tls: { ca: authority.cert }, flags });
const asked = useEtcd({
  members: 1,
  tls: { ca: authority.cert, ...authority.issue('a probe') },
  flags: [...flags, '--trusted-ca-file', ca, '--client-cert-auth'],
});

/** The store as a registry opens it whose config says so. */
async function storeOf(address: string | undefined, toml: string) {
  const config = written('sms.toml', `[store]\nurl = "etcd://${address}/spear-${randomUUID()}"\n[store.etcd]\n${toml}`);
  const { etcd } = loadRegistryConfig({ flags: { config }, env: { HOME: folder } });
  if (etcd === null) throw new Error('there is no etcd in the config');
  return openEtcdStore(etcd);
}

async function failure(address: string | undefined, toml: string): Promise<string> {
  const message = await storeOf(address, toml).then(
    () => 'it was let in',
    (error: Error) => error.message,
  );
  expect(message).not.toMatch(/wr0ng|PRIVATE/);
  return message;
}

/** etcd's own HTTP side, by TLS. */
function manage(path: string, json: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const url = `https://${withTls().members[0]?.address}/v3/auth/${path}`;
    const sent = request(url, { method: 'POST', ca: authority.cert }, (answer) => {
      answer.resume();
      if (answer.statusCode === 200) resolve();
      else reject(new Error(`${path}: ${answer.statusCode}`));
    });
    sent.once('error', reject);
    sent.end(JSON.stringify(json));
  });
}

describe('an etcd with TLS', () => {
  const at = () => withTls().members[0]?.address;

  it('stores a registry that trusts the CA of its certificate [etcd.tls]', async () => {
    const store = await storeOf(at(), 'ca = "ca.pem"');
    expect((await store.servers.upsert(sampleRecord('a'))).changed).toBe(true);
    expect((await store.servers.list()).records).toHaveLength(1);
    await store.close();
  });

  it('is refused with another CA or without TLS, and the message names the fix [etcd.tls]', async () => {
    const ms = await fastest(8_000, async () => {
      expect(await failure(at(), 'ca = "other-ca.pem"')).toMatch(/not trusted.*not issued by store\.etcd\.ca/);
    });
    expect(ms).toBeLessThan(8_000);
    // A TLS server closes plaintext connections without a message, so the client retries until its deadline.
    expect(await failure(at(), '')).toMatch(/not encrypted; if etcd requires TLS, set store\.etcd\.ca/);
  }, 120_000);

  it('accepts a user and a password by reference only [etcd.login]', async () => {
    await manage('user/add', { name: 'root', password: 'the right password' });
    await manage('user/grant', { user: 'root', role: 'root' });
    await manage('enable', {});
    const as = (file: string) => `ca = "ca.pem"\nuser = "root"\npassword = "file:${join(folder, file)}"`;
    const store = await storeOf(at(), as('right'));
    expect((await store.servers.upsert(sampleRecord('a'))).changed).toBe(true);
    await store.close();
    expect(await failure(at(), as('wrong'))).toContain('authentication failed');
    expect(await failure(at(), 'ca = "ca.pem"')).toContain('store.etcd.user');
  });
});

describe('an etcd with client certificates', () => {
  const at = () => asked().members[0]?.address;

  it('stores a registry with a client certificate only [etcd.tls]', async () => {
    const store = await storeOf(at(), 'ca = "ca.pem"\ncert = "sms.pem"\nkey = "sms.key"');
    expect((await store.servers.upsert(sampleRecord('a'))).changed).toBe(true);
    await store.close();
    expect(await failure(at(), 'ca = "ca.pem"')).toContain('set store.etcd.cert and store.etcd.key');
    const foreign = 'ca = "ca.pem"\ncert = "stranger.pem"\nkey = "stranger.key"';
    expect(await failure(at(), foreign)).toContain('etcd rejected the client certificate store.etcd.cert');
  });
});
