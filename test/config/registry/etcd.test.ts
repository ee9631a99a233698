import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadRegistryConfig } from '../../../src/config/registry/registry-config.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-etcd-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, 'ca.pem'), 'CA');
writeFileSync(join(folder, 'open.key'), 'KEY', { mode: 0o644 });

/** With a config file of this text, and `--store` where it is given. */
function etcdOf(store: string | undefined, toml = '', env: NodeJS.ProcessEnv = {}) {
  const config = join(folder, 'sms.toml');
  writeFileSync(config, toml);
  return loadRegistryConfig({ flags: { store, config }, env: { HOME: folder, ...env } }).etcd;
}

describe('an etcd as the store', () => {
  it('is in clear on loopback and by TLS everywhere else, unless told otherwise', () => {
    expect(etcdOf(undefined)).toBeNull();
    expect(etcdOf('etcd://127.0.0.1:2379,localhost:2380')).toMatchObject({
      endpoints: ['http://127.0.0.1:2379', 'http://localhost:2380'],
      prefix: 'spear',
    });
    expect(etcdOf('etcd://127.0.0.1:1,10.0.0.1:2/team-a')).toMatchObject({
      endpoints: ['https://127.0.0.1:1', 'https://10.0.0.1:2'],
      prefix: 'team-a',
    });
    expect(etcdOf('etcd://10.0.0.1:2', '[store.etcd]\nallow_plaintext = true')?.endpoints).toEqual([
      'http://10.0.0.1:2',
    ]);
    expect(etcdOf('etcd://127.0.0.1:1', '[store.etcd]\nca = "ca.pem"')).toMatchObject({
      endpoints: ['https://127.0.0.1:1'],
      tls: { ca: 'CA' },
    });
    expect(etcdOf(undefined, '[store]\nurl = "etcd://127.0.0.1:1"')?.endpoints).toEqual(['http://127.0.0.1:1']);
    expect(etcdOf(undefined, '', { SMS_STORE: 'etcd://127.0.0.1:7' })?.endpoints).toEqual(['http://127.0.0.1:7']);
  });

  it('has a password by reference, which is read when it is used', () => {
    const toml = '[store.etcd]\nuser = "spear"\npassword = "env:ETCD_PASSWORD"';
    const env = { ETCD_PASSWORD: 'hunter2' };
    expect(etcdOf('etcd://127.0.0.1:1', toml, env)?.login?.password().reveal()).toBe('hunter2');
    expect(() => etcdOf('etcd://127.0.0.1:1', toml)?.login?.password()).toThrow('store.etcd.password');
  });

  it.each([
    ['etcd://', '', '--store: expected etcd://HOST:PORT'],
    ['etcd://a', '', '--store: expected etcd://HOST:PORT'],
    ['etcd://a:1,,b:2', '', '--store: expected etcd://HOST:PORT'],
    ['etcd://a:1/x/y', '', '--store: expected etcd://HOST:PORT'],
    ['etcd://root:secret@a:1', '', 'found a credential: set store.etcd.user'],
    ['sqlite:x.db', '', 'use --data for a file'],
    [undefined, '[store.etcd]\nuser = "x"\npassword = "env:Y"', 'neither --store nor store.url names an etcd'],
    ['etcd://a:1', '[store.etcd]\nuser = "x"', 'user and password must be set together'],
    ['etcd://a:1', '[store.etcd]\ncert = "ca.pem"', 'cert and key must be set together'],
    ['etcd://a:1', '[store.etcd]\nca = "none.pem"', 'store.etcd.ca: '],
    ['etcd://a:1', '[store.etcd]\ncert = "ca.pem"\nkey = "open.key"', 'store.etcd.key: '],
    ['etcd://a:1', '[store.etcd]\nca = "ca.pem"\nallow_plaintext = true', 'allow_plaintext cannot be combined with'],
    ['etcd://a:1', '[store.etcd]\nuser = "x"\npassword = "hunter2"', 'password'],
  ])('%s with %s is refused: %s', (store, toml, message) => {
    expect(() => etcdOf(store, toml)).toThrow(message);
    expect(() => etcdOf(store, toml)).not.toThrow(/secret@|hunter2/);
  });
});
