import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { JOURNAL_FORMAT } from '../../../src/runtime/durable/journal.ts';
import { builtCommand } from '../../support/built-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-formats-'));
afterAll(() => rmSync(folder, { recursive: true }));

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const key = 'the key of this fixture is no secret';
const whole = 'tool sum {"a":2,"b":40} -> {"sum":42}\n2 + 40 = 42\n';

function command(name: 'spear' | 'spear-run', ...args: string[]) {
  const env = { PATH: process.env.PATH, HOME: folder, KEY: key };
  const ran = spawnSync(process.execPath, [builtCommand(name), ...args], { encoding: 'utf8', env, input: '' });
  return { status: ran.status, stdout: ran.stdout };
}

const names = readdirSync(fixture('journals')).filter((name) => name.endsWith('.journal'));
const kept = names.map((name): [string, string] => [name, /format-\d+/.exec(name)?.[0] ?? '']);

describe('a journal that an earlier version wrote', () => {
  it('is kept of every format that is read', () => {
    expect(kept.map(([, format]) => format)).toContain(`format-${JOURNAL_FORMAT}`);
    for (const [, format] of kept) expect(existsSync(fixture(`journals/${format}.wasm`))).toBe(true);
  });

  it.each(kept)('%s is verified, replayed and resumed [journal.earlier]', (name, format) => {
    const file = join(folder, name);
    copyFileSync(fixture(`journals/${name}`), file);
    const wasm = fixture(`journals/${format}.wasm`);
    const opens = name.includes('encrypted') ? ['--journal-key', 'env:KEY'] : [];
    expect(command('spear', 'journal', 'verify', file, ...opens).stdout).toContain(
      'incomplete write of a crashed process',
    );
    const replayed = command('spear', 'replay', file, '--wasm', wasm, ...opens);
    expect(replayed.status).toBe(130);
    expect(replayed.stdout).not.toBe('');
    const resumed = command('spear-run', wasm, '--resume', file, '--script', fixture('scripts/sum.json'), ...opens);
    expect([resumed.status, replayed.stdout + resumed.stdout]).toEqual([0, whole]);
    expect(command('spear', 'replay', file, '--wasm', wasm, ...opens)).toEqual({ status: 0, stdout: whole });
  });
});
