import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { loadHostConfig } from '../../../src/config/host/host-config.ts';
import { MAX_SECRET_FILE_BYTES, readSecretFile } from '../../../src/server/secrets/secret-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-secret-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let made = 0;
function secretFile(mode: number, content = 'canary-of-a-file\n'): string {
  const path = join(folder, `secret-${++made}`);
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

it.each([0o600, 0o400, 0o700, 0o640, 0o440])(
  'is read where only its owner may, or its group too: %o [secrets.file]',
  (mode) => {
    expect(readSecretFile(secretFile(mode))).toBe('canary-of-a-file\n');
  },
);

it.each([
  [0o644, '644'],
  [0o660, '660'],
  [0o604, '604'],
  [0o620, '620'],
  [0o602, '602'],
])('of mode %o is rejected, and the error names the fix [secrets.file]', (mode, shown) => {
  const path = secretFile(mode);
  expect(() => readSecretFile(path)).toThrow(
    `${path} is accessible to other users (mode ${shown}); run: chmod 600 ${path}`,
  );
});

it('behind a symbolic link is checked itself, not the link [secrets.file]', () => {
  const link = join(folder, 'link');
  symlinkSync(secretFile(0o644), link);
  expect(() => readSecretFile(link)).toThrow('accessible to other users');
});

it('of another user is rejected; root may own it [secrets.file]', () => {
  const path = secretFile(0o600);
  const owner = process.getuid?.() ?? 0;
  const other = owner + 1;
  if (owner === 0) {
    expect(readSecretFile(path, { uid: other })).toContain('canary');
    chownSync(path, 12_345, 0);
    expect(() => readSecretFile(path)).toThrow(`belongs to another user (uid 12345)`);
  } else {
    expect(() => readSecretFile(path, { uid: other })).toThrow(`belongs to another user (uid ${owner})`);
  }
});

it('must be a regular file of limited size [secrets.file]', () => {
  expect(() => readSecretFile(folder)).toThrow(/is not a regular file|EISDIR/);
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  expect(() => readSecretFile(pipe)).toThrow('is not a regular file');
  const large = secretFile(0o600, 'x'.repeat(MAX_SECRET_FILE_BYTES + 1));
  expect(() => readSecretFile(large)).toThrow(`the limit for a secret is ${MAX_SECRET_FILE_BYTES}`);
});

it('of a backend is checked when the backend is used, not before [secrets.file]', async () => {
  const open = secretFile(0o644);
  const config = join(folder, 'config.toml');
  writeFileSync(
    config,
    `default_backend = "a"\n[backends.a]\nkind = "stub"\n` +
      `[backends.b]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\napi_key = "file:${open}"\n`,
  );
  const host = await loadHostConfig({ file: config, env: {} });
  const backend = host.backends.get('b');
  chmodSync(open, 0o600);
  expect(backend).toMatchObject({ problem: undefined });
  const again = (await loadHostConfig({ file: config, env: {} })).backends.get('b');
  chmodSync(open, 0o644);
  expect(again).toMatchObject({ apiKey: undefined, problem: expect.stringContaining(`run: chmod 600 ${open}`) });
  expect(JSON.stringify(again)).not.toContain('canary');
});
