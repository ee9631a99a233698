import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { journalKey, NO_BLOCK, sealBlock } from '../../../src/runtime/durable/blocks.ts';
import { JournalKeyMissing } from '../../../src/runtime/durable/journal-error.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { builtCommand } from '../../support/built-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-encrypted-'));
afterAll(() => rmSync(folder, { recursive: true }));

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const file = join(folder, 'run.journal');
const text = 'the key of these journals';
const key = journalKey(text);
const other = journalKey('the key of other journals');
const sum = [fixture('c/sum.wasm'), '--script', fixture('scripts/sum.json')];

function command(name: 'spear' | 'spear-run', args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand(name), ...args], {
    encoding: 'utf8',
    cwd: folder,
    input: '',
    env: { PATH: process.env.PATH, HOME: folder, ...env },
  });
  return { status, stdout, stderr };
}

let output = '';

beforeAll(() => {
  writeFileSync(join(folder, 'key'), `${text}\n`, { mode: 0o600 });
  writeFileSync(join(folder, 'config.toml'), '[journal]\nkey = "file:key"\n');
  const run = command('spear-run', [...sum, '--config', 'config.toml', '--journal', file]);
  expect(run).toMatchObject({ status: 0, stderr: '' });
  output = run.stdout;
});

const lines = () => readFileSync(file, 'utf8').trimEnd().split('\n');

/** The journal with other lines, chained as if they had been written so. */
function chained(name: string, changed: readonly string[]): string {
  let hash = NO_BLOCK;
  const path = join(folder, name);
  const blocks = changed.map((line) => {
    const block = sealBlock([line.replace(/,"#":"[0-9a-f]{64}"/, '')], hash);
    hash = block.hash;
    return block.text;
  });
  writeFileSync(path, blocks.join(''));
  return path;
}

describe('an encrypted journal', () => {
  it('has nothing of its run in the clear [journal.encrypted]', () => {
    const written = readFileSync(file, 'utf8');
    // Quoted, since base64 may well contain a short word.
    for (const plain of ['"header"', '"model', '"sum"', 'run-', '"args"', text]) expect(written).not.toContain(plain);
    expect(new Set(lines().map((line) => (JSON.parse(line) as { t: string }).t))).toEqual(
      new Set(['encrypted', 'block']),
    );
    const { header, records } = readJournal(file, key);
    expect(header.t).toBe('header');
    expect(records.at(-1)).toMatchObject({ t: 'end', exit: 0 });
  });

  it('is shown, made a script of and judged with its key, and not without it [journal.encrypted]', () => {
    for (const [args, refused] of [
      [['journal', 'show', file], 1],
      [['journal', 'script', file], 1],
      [['test', '--journals', file], 2],
    ] as const) {
      expect(command('spear', [...args, '--journal-key', 'file:key']), args.join(' ')).toMatchObject({ status: 0 });
      expect(command('spear', [...args, '--config', 'config.toml']), args.join(' ')).toMatchObject({ status: 0 });
      const without = command('spear', args);
      expect(without.status).toBe(refused);
      expect(without.stdout + without.stderr).toContain(`encrypted with key ${key.id}`);
    }
  });

  it('is replayed with its key, by flag or by config [journal.encrypted]', () => {
    for (const [flags, env] of [
      [['--journal-key', 'file:key'], {}],
      [['--journal-key', 'env:JOURNAL_KEY'], { JOURNAL_KEY: text }],
      [['--config', 'config.toml'], {}],
      [[], { SPEAR_CONFIG: 'config.toml' }],
    ] as const) {
      expect(command('spear', ['replay', file, ...flags], env)).toEqual({ status: 0, stdout: output, stderr: '' });
    }
  });

  it('says that its key is missing, or another one [journal.encrypted]', () => {
    expect(() => readJournal(file)).toThrow(JournalKeyMissing);
    expect(() => readJournal(file, other)).toThrow(`encrypted with key ${key.id}, but the given key is ${other.id}`);
    const replayed = command('spear', ['replay', file]);
    expect(replayed).toMatchObject({ status: 2, stdout: '' });
    expect(replayed.stderr).toContain('pass this key with --journal-key REFERENCE or set [journal] key in the config');
    const resumed = command('spear-run', ['--resume', file]);
    expect(resumed).toMatchObject({ status: 125, stdout: '' });
    expect(resumed.stderr).toContain(`encrypted with key ${key.id}`);
    const short = command('spear', ['replay', file, '--journal-key', 'env:K'], { K: 'short' });
    expect(short.stderr).toContain('--journal-key: env:K: the key has fewer than 16 characters');
  });

  it('has a chain that is checked without the key, and records that are checked with it [journal.encrypted]', () => {
    const without = command('spear', ['journal', 'verify', file, '--json']);
    const found = JSON.parse(without.stdout) as { head: string };
    expect(found).toMatchObject({ ok: true, opened: false, encrypted_by: key.id, blocks: lines().length });
    const withKey = command('spear', ['journal', 'verify', file, '--json', '--config', 'config.toml']);
    expect(JSON.parse(withKey.stdout)).toMatchObject({ ok: true, encrypted: true, head: found.head });

    const changed = join(folder, 'changed.journal');
    writeFileSync(changed, readFileSync(file, 'utf8').replace(/("b":"....)./, '$1_'));
    const bad = command('spear', ['journal', 'verify', changed]);
    expect(bad).toMatchObject({ status: 1 });
    expect(bad.stdout).toContain('line 2: the block was changed or damaged: its hash does not match');
  });

  it('whose chain was recomputed without the key is rejected with the key', () => {
    const [first = '', second = '', third = '', ...rest] = lines();
    const moved = chained('moved.journal', [first, third, second, ...rest]);
    expect(() => readJournal(moved, key)).toThrow('line 2: the block was changed or damaged: decryption failed');
    const taken = chained('taken.journal', [first, second, ...rest]);
    expect(() => readJournal(taken, key)).toThrow('line 3: the block was changed or damaged');
    const inTheClear = chained('clear.journal', [first, '{"t":"header"}']);
    expect(() => readJournal(inTheClear, key)).toThrow('line 2: the block was changed or damaged');
    const cipher = chained('cipher.journal', [first.replace('aes-256-gcm', 'rot13')]);
    expect(() => readJournal(cipher, key)).toThrow('unknown encryption [2,"rot13"]');
  });

  it('that was cut off loses its incomplete block and continues encrypted', () => {
    const bytes = readFileSync(file);
    const at = bytes.indexOf('\n', bytes.length / 2) + 1;
    const cut = join(folder, 'cut.journal');
    writeFileSync(cut, bytes.subarray(0, at + 20));
    expect(readJournal(cut, key).tornBytes).toBe(20);
    const printed = readJournal(cut, key).records.flatMap((record) => (record.t === 'output' ? [record.b] : []));
    const before = Buffer.concat(printed.map((b) => Buffer.from(b, 'base64'))).toString();
    const resumed = command('spear-run', ['--resume', cut, '--config', 'config.toml']);
    expect(resumed).toMatchObject({ status: 0, stdout: output.slice(before.length) });
    expect(readFileSync(cut, 'utf8')).not.toContain('resumed');
    expect(readJournal(cut, key).records.at(-1)).toMatchObject({ t: 'end', exit: 0 });
    expect(command('spear', ['replay', cut, '--journal-key', 'file:key'])).toMatchObject({ status: 0, stdout: output });
  });
});

it('a journal in the clear is read whatever key there is, and does not go on with one [journal.downgrade]', () => {
  const plain = join(folder, 'plain.journal');
  expect(command('spear-run', [...sum, '--journal', plain])).toMatchObject({ status: 0 });
  expect(readJournal(plain, key).cipher).toBe(null);
  const bytes = readFileSync(plain);
  writeFileSync(plain, bytes.subarray(0, bytes.indexOf('{"t":"model.answered"')));
  const refused = command('spear-run', ['--resume', plain, '--journal-key', 'file:key']);
  expect(refused).toMatchObject({ status: 125, stdout: '' });
  expect(refused.stderr).toContain('not encrypted, but a journal key is configured');
  expect(readFileSync(plain, 'utf8')).not.toContain('"t":"resumed"');
  expect(command('spear-run', ['--resume', plain])).toMatchObject({ status: 0, stdout: output });
  expect(readFileSync(plain, 'utf8')).toContain('"t":"resumed"');
});
