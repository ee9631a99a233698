import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

it('holds what the .proto files give', () => {
  const fresh = mkdtempSync(join(tmpdir(), 'spear-generated-'));
  try {
    const run = spawnSync(process.execPath, [join(root, 'scripts/generate-protobuf.ts'), fresh], { encoding: 'utf8' });
    expect(run.stderr).toBe('');
    const committed = join(root, 'src/protocol/generated');
    expect(filesOf(committed)).toEqual(filesOf(fresh));
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}, 60_000);

function filesOf(directory: string): Record<string, string> {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  return Object.fromEntries(names.sort().map((name) => [name, readFileSync(join(directory, name), 'utf8')]));
}
