// Fails when a generated file is not what its generator writes now. Nothing in the checkout is changed.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generatedPages } from './write-docs.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'spear-generated-'));
const stale: string[] = [];

/** Runs a generator that takes the place to write to, and compares the result with what is committed. */
function compare(script: string, committed: string): void {
  const fresh = join(scratch, script);
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts', script), fresh], { encoding: 'utf8' });
  if (status !== 0) stale.push(`scripts/${script} failed: ${stderr.trim()}`);
  else if (contentOf(fresh) !== contentOf(join(root, committed))) {
    stale.push(`${committed} is stale: run node scripts/${script}`);
  }
}

/** A file's text, or the names and texts of a folder's files. */
function contentOf(path: string): string {
  if (statSync(path).isFile()) return readFileSync(path, 'utf8');
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  return JSON.stringify(names.sort().map((name) => [name, readFileSync(join(path, name), 'utf8')]));
}

try {
  for (const { path, text } of generatedPages()) {
    if (readFileSync(join(root, path), 'utf8') !== text) stale.push(`${path} is stale: run npm run docs`);
  }
  compare('generate-protobuf.ts', 'src/generated/proto');
  compare('wasi-types.ts', 'src/generated/wasi-types.ts');
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
for (const problem of stale) console.error(problem);
process.exitCode = stale.length === 0 ? 0 : 1;
