import { chmodSync, cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

export const compatFixture = (path: string) => fileURLToPath(new URL(`../../fixtures/compat/${path}`, import.meta.url));

/** A private copy of a folder of fixtures/compat for one test: opening a database changes it. */
export function copiedFixture(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'spear-compat-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(compatFixture(name), folder, { recursive: true });
  // Git does not keep these permissions, and files with secrets are read only if they are private.
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o700 : 0o600);
  }
  return folder;
}
