import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { LoginStore, type StoredLogin } from '../../../../../src/agent/mcp/client/oauth/login-store.ts';
import { tempDir } from '../pool-samples.ts';

const url = new URL('https://a.example/mcp');
const login: StoredLogin = {
  version: 1,
  server_url: url.href,
  issuer: 'https://login.example',
  authorization_server: 'https://login.example',
  resource: url.href,
  client: { client_id: 'me' },
  access_token: 'access-0123456789',
  refresh_token: 'refresh-0123456789',
  scope: 'read',
  expires_at_ms: null,
  renew_at_ms: null,
  wanted_scope: null,
};

it('returns a stored login only for the same server URL', () => {
  const directory = tempDir();
  const store = new LoginStore(directory);
  expect(store.read('a', url)).toBeNull();
  store.write('a', login);
  expect(store.read('a', url)).toEqual(login);
  expect(store.read('a', new URL('https://b.example/mcp'))).toBeNull();
  expect(store.read('b', url)).toBeNull();
  expect(readdirSync(directory)).toEqual(['a.json']);
  expect([store.remove('a'), store.remove('a')]).toEqual([true, false]);
});

it('ignores a file that is not a login', () => {
  const directory = tempDir();
  for (const text of ['', '{', '[]', '{"version":2}']) {
    writeFileSync(join(directory, 'a.json'), text, { mode: 0o600 });
    expect(new LoginStore(directory).read('a', url)).toBeNull();
  }
});

it('does not write to a directory that other users can access [mcp.oauth.login.file]', () => {
  const directory = tempDir();
  chmodSync(directory, 0o755);
  expect(() => new LoginStore(directory).write('a', login)).toThrow('is accessible to other users; run: chmod 700');
  expect(readdirSync(directory)).toEqual([]);
});

it('runs one task at a time, and the next one after a failure', async () => {
  const store = new LoginStore(tempDir());
  const events: string[] = [];
  const work = (name: string) =>
    store.locked('a', async () => {
      events.push(`${name} begins`);
      await new Promise(setImmediate);
      events.push(`${name} ends`);
      if (name === 'first') throw new Error('failed');
    });
  const [first] = await Promise.allSettled([work('first'), work('second')]);
  expect(first?.status).toBe('rejected');
  expect(events).toEqual(['first begins', 'first ends', 'second begins', 'second ends']);
});

it('takes the lock of a process that died', async () => {
  const directory = tempDir();
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  const lock = join(directory, 'a.json.lock');
  writeFileSync(lock, `${pid}\n`);
  expect(await new LoginStore(directory).locked('a', async () => existsSync(lock))).toBe(true);
  expect(existsSync(lock)).toBe(false);
});
