import { execFile } from 'node:child_process';
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, it } from 'vitest';
import { ensureTokens } from '../../../src/server/identity/file-tokens.ts';
import { stopAll, temporaryDirectory } from '../../registry/running-sms.ts';

afterEach(stopAll);

it('creates two different tokens at the first start, readable by their owner only, and retains them [sms.auth.token_files]', () => {
  const directory = join(temporaryDirectory(), 'new');
  const paths = { admin: join(directory, 'admin.token'), node: join(directory, 'node.token') };
  const { tokens, created } = ensureTokens(paths);
  expect(created).toEqual([paths.admin, paths.node]);
  expect(tokens.admin).not.toEqual(tokens.node);
  expect(tokens.admin[0]).toMatch(/^spr_[0-9a-f]{72}$/); // never a leading dash: it would read as a flag
  for (const path of created) expect(statSync(path).mode & 0o777).toBe(0o600);
  expect([readFileSync(paths.admin, 'utf8').trim()]).toEqual(tokens.admin);
  expect(ensureTokens(paths)).toEqual({ tokens, created: [] });
});

it('rejects a token file that other users can read, and one without a token [sms.auth.token_files]', () => {
  const directory = temporaryDirectory();
  const paths = { admin: join(directory, 'admin.token'), node: join(directory, 'node.token') };
  const { tokens } = ensureTokens(paths);
  for (const mode of [0o644, 0o660]) {
    chmodSync(paths.admin, mode);
    expect(() => ensureTokens(paths)).toThrow(/admin\.token is accessible to other users .*; run: chmod 600/);
  }
  // Container platforms mount secrets with this mode.
  chmodSync(paths.admin, 0o440);
  expect(ensureTokens(paths).tokens).toEqual(tokens);
  chmodSync(paths.admin, 0o600);
  for (const text of ['', 'short', 'has spaces in the middle of it', String(tokens.node[0])]) {
    writeFileSync(paths.admin, text);
    const complaint = complaintOf(() => ensureTokens(paths));
    expect(complaint).toContain('admin.token');
    expect(complaint).not.toContain(tokens.node[0]);
  }
});

it('leaves no partial token on a full disk [sms.auth.token_files] [store.no_room]', async () => {
  const directory = temporaryDirectory();
  // A process that may write files of no size at all: every write fails as on a full disk.
  const script = `import(${JSON.stringify(new URL('../../../src/server/identity/file-tokens.ts', import.meta.url))})
    .then(({ ensureTokens }) => ensureTokens({ admin: '${directory}/admin.token', node: '${directory}/node.token' }))
    .catch((error) => process.stdout.write(error.message))`;
  const { stdout } = await promisify(execFile)('sh', [
    '-c',
    'ulimit -f 0; exec "$0" -e "$1"',
    process.execPath,
    script,
  ]);
  expect(stdout).toBe(`the token file ${directory}/admin.token cannot be created (EFBIG)`);
  expect(readdirSync(directory)).toEqual([]);
});

function complaintOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return String(error);
  }
  return 'nothing was wrong';
}
