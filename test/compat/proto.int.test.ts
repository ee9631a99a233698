import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

const at = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const protos = at('src/server/records/proto');
const folder = mkdtempSync(join(tmpdir(), 'spear-proto-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The breaking changes that buf finds in `now`, compared with the frozen files. */
function breakingChanges(now: string): string {
  const args = ['breaking', now, '--against', at('fixtures/compat/proto')];
  const { status, stdout, stderr, error } = spawnSync(at('node_modules/.bin/buf'), args, { encoding: 'utf8' });
  if (error) throw error;
  if (status !== 0 && stdout === '') throw new Error(`buf ended with ${status}: ${stderr}`);
  return stdout;
}

it('changes nothing in the protos that breaks clients and servers of today [compat.proto]', () => {
  expect(breakingChanges(protos)).toBe('');
});

it('finds a field that got another number [compat.proto]', () => {
  cpSync(protos, folder, { recursive: true });
  const file = join(folder, 'sms/mcp_node.proto');
  const text = readFileSync(file, 'utf8');
  const changed = text.replace(/= 1;/, '= 99;');
  expect(changed).not.toBe(text);
  writeFileSync(file, changed);
  expect(breakingChanges(folder)).toContain('sms/mcp_node.proto');
});
