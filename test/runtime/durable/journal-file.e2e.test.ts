import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sealBlock } from '../../../src/runtime/durable/blocks.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { builtCommand } from '../../support/built-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-journal-file-'));
afterAll(() => rmSync(folder, { recursive: true }));

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const file = join(folder, 'run.journal');

function command(name: 'spear' | 'spear-run', ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand(name), ...args], {
    encoding: 'utf8',
    cwd: folder,
    input: 'x'.repeat(200_000),
  });
  return { status, stdout, stderr };
}

beforeAll(() => {
  const args = [fixture('c/sum.wasm'), '--script', fixture('scripts/sum.json'), '--journal', file];
  expect(command('spear-run', ...args)).toMatchObject({ status: 0 });
});

/** The journal with something changed, and sealed again as if it had been written so. */
function rewritten(name: string, change: (line: string) => string): string {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  let hash = '0'.repeat(64);
  let text = '';
  for (const line of lines) {
    const block = sealBlock([change(line.replace(/,"#":"[0-9a-f]{64}"/, ''))], hash);
    hash = block.hash;
    text += block.text;
  }
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('the file of a journal', () => {
  it('is its owner’s alone, whole, and is not written over [journal.format]', () => {
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(command('spear', 'journal', 'verify', file)).toMatchObject({ status: 0 });
    const again = command('spear-run', fixture('c/hello.wasm'), '--journal', file);
    expect(again).toMatchObject({ status: 125, stdout: '' });
    expect(again.stderr).toContain('the journal exists already');
  });

  it('that was changed is found, and the line is named', () => {
    const path = join(folder, 'changed.journal');
    writeFileSync(path, readFileSync(file, 'utf8').replace('2 + 40', '2 + 41'));
    const found = command('spear', 'journal', 'verify', path);
    expect(found.status).toBe(1);
    expect(found.stdout).toMatch(/line \d+: the block was changed or damaged/);
    expect(command('spear', 'replay', path)).toMatchObject({ status: 2, stdout: '' });
  });

  it('that was cut off loses the line that is not whole, and nothing else', () => {
    const path = join(folder, 'cut.journal');
    writeFileSync(path, readFileSync(file).subarray(0, -10));
    const { records, tornBytes } = readJournal(path);
    const all = readJournal(file).records;
    expect(records.length).toBeLessThan(all.length);
    expect(records).toEqual(all.slice(0, records.length));
    expect(tornBytes).toBeGreaterThan(0);
    expect(command('spear', 'journal', 'verify', path).stdout).toContain('incomplete write of a crashed process');
  });

  it('whose writer was killed has lines without a hash: they count, and are sealed when the run resumes [journal.format]', () => {
    const lines = readFileSync(file, 'utf8').split('\n');
    const answered = lines.findIndex((line) => line.startsWith('{"t":"model.answered"'));
    const unsealed = lines.slice(1, answered).map((line) => line.replace(/,"#":"[0-9a-f]{64}"/, ''));
    const path = join(folder, 'unsealed.journal');
    const text = [lines[0], ...unsealed, '{"t":"model.ans'].join('\n');
    writeFileSync(path, text);
    const { records, tornBytes, end } = readJournal(path);
    expect(records.map(({ t }) => t)).toEqual(unsealed.map((line) => (JSON.parse(line) as { t: string }).t));
    expect([tornBytes, end.unsealed]).toEqual([15, unsealed.map((line) => `${line}\n`).join('')]);
    const verified = command('spear', 'journal', 'verify', path);
    expect(verified.stdout).toContain(
      `the last ${end.unsealed.length} bytes were written just before the process was killed`,
    );
    const resumed = command('spear-run', '--resume', path);
    expect(resumed).toMatchObject({ status: 0, stdout: 'tool sum {"a":2,"b":40} -> {"sum":42}\n2 + 40 = 42\n' });
    expect(readJournal(path)).toMatchObject({ tornBytes: 0, end: { unsealed: '' } });
    writeFileSync(path, readFileSync(path, 'utf8').replace(unsealed[0] ?? '', '{"t":"guest","e":"","ms":0}'));
    expect(() => readJournal(path)).toThrow('the block was changed or damaged');
  });

  it('of format 1 has a hash for every write: what has none does not count [journal.format]', () => {
    const [header = '', ...others] = readFileSync(file, 'utf8').split('\n');
    const path = rewritten('first-format.journal', (line) => line.replace('"format":2', '"format":1'));
    const [first] = readFileSync(path, 'utf8').split('\n');
    writeFileSync(path, `${first}\n${others[0]}\n`);
    expect(readJournal(path)).toMatchObject({ records: [], tornBytes: (others[0]?.length ?? 0) + 1 });
    expect(header).toContain('"format":2');
  });

  it('of another format or ABI is refused', () => {
    const format = command(
      'spear',
      'replay',
      rewritten('format.journal', (line) => line.replace('"format":2', '"format":3')),
    );
    expect(format).toMatchObject({ status: 2, stdout: '' });
    expect(format.stderr).toContain('unknown journal format 3');
    const abi = command(
      'spear',
      'replay',
      rewritten('abi.journal', (line) => line.replace('"abi":[1', '"abi":[2')),
    );
    expect(abi.stderr).toContain('recorded with ABI [2');
  });

  it.each([
    ['"wasm":{', '"wasn":{', 'line 1: field wasm of the header record is missing or invalid'],
    ['"args":[', '"args":7,"x":[', 'line 1: field args of the header record'],
    ['"e":"', '"e":"no events ', 'line 2: field e of the guest record'],
    ['"m":[', '"n":[', /line \d+: field m of the reply record/],
    ['"b":"', '"c":"', /line \d+: field b of the output record/],
    ['"reason":"exit"', '"reason":null', /line \d+: field reason of the end record/],
  ])('whose %s was made %s and sealed again is refused, and the line is named', (from, to, problem) => {
    const path = rewritten('field.journal', (line) => line.replace(from, to));
    expect(() => readJournal(path)).toThrow(problem);
  });

  it('of another module is not replayed', () => {
    const other = command('spear', 'replay', file, '--wasm', fixture('c/hello.wasm'));
    expect(other).toMatchObject({ status: 2, stdout: '' });
    expect(other.stderr).toContain('recorded with module sha256');
  });

  it('that was rewritten is not resumed past the place where it differs [journal.diverged]', () => {
    const path = rewritten('resumed.journal', (line) => line.replaceAll('2,\\"b\\":40', '3,\\"b\\":40'));
    const lines = readFileSync(path, 'utf8').split('\n');
    writeFileSync(
      path,
      `${lines
        .slice(
          0,
          lines.findLastIndex((line) => line.includes('"t":"model.asked"')),
        )
        .join('\n')}\n`,
    );
    const resumed = command('spear-run', '--resume', path);
    expect(resumed).toMatchObject({ status: 123, stdout: '' });
    expect(resumed.stderr).toMatch(/diverged from its journal at hostcall \d+ \(cchat_send\), position \d+\.\d+/);
  });

  it('of another Spear is taken, and that is said', () => {
    const path = rewritten('spear.journal', (line) => line.replace('"spear":"', '"spear":"0.0.1-'));
    const replayed = command('spear', 'replay', path);
    expect(replayed.status).toBe(0);
    expect(replayed.stderr).toContain('was written by Spear 0.0.1-');
  });

  it('larger than limits.journal_bytes ends its run', () => {
    const args = ['--journal', join(folder, 'full.journal'), '--limit', 'journal_bytes=65536'];
    const run = command('spear-run', fixture('c/test/echo-stdin.wasm'), ...args);
    expect(run.status).toBe(125);
    expect(run.stderr).toContain('limits.journal_bytes = 65536');
  });
});

describe('a replay', () => {
  it('that is another run ends at the call where it differs [journal.diverged]', () => {
    const path = rewritten('other.journal', (line) => line.replaceAll('2,\\"b\\":40', '3,\\"b\\":40'));
    const replayed = command('spear', 'replay', path);
    expect(replayed.status).toBe(123);
    expect(replayed.stderr).toMatch(/diverged from its journal at hostcall \d+ \(cchat_send\), position \d+\.\d+/);
  });

  it('of a run that had not ended stops where its journal does', () => {
    const path = join(folder, 'open.journal');
    const text = readFileSync(file, 'utf8');
    writeFileSync(path, text.slice(0, text.indexOf('{"t":"model.answered"')));
    const replayed = command('spear', 'replay', path);
    expect(replayed.status).toBe(130);
    expect(replayed.stderr).toContain('the journal ends before the run ended');
  });
});
