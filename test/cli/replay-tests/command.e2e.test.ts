import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { builtCommand } from '../../support/built-command.ts';
import { fixture, RecordedCorpus } from './recorded-corpus.ts';

const corpus = new RecordedCorpus();
afterAll(() => rmSync(corpus.folder, { recursive: true, force: true }));

/** Nothing could be found by its name: no process is started. */
const env = { PATH: '', HOME: corpus.folder };
const spear = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand('spear'), 'test', ...args], {
    encoding: 'utf8',
    env,
  });
  return { status, stdout, stderr };
};
const { journals } = corpus;

describe('spear test', () => {
  it('exits with 0 where all are the same, and says so [journal.test]', () => {
    expect(spear('--journals', journals)).toEqual({
      status: 0,
      stdout: '3 runs: 3 unchanged, 0 differ\n',
      stderr: '',
    });
  });

  it('exits with 1 where some differ, and names the call [journal.test-policy]', () => {
    const { status, stdout } = spear('--journals', journals, '--policy', corpus.records({ allowed_tools: [] }));
    expect(status).toBe(1);
    expect(stdout).toContain(
      'files.journal: differs at call 1.1.1, work of count with {"label":"a"}\n  recorded: the call was made',
    );
    expect(stdout).toContain('3 runs: 1 unchanged, 2 differ\n');
  });

  it('gives a line of JSON for each run', () => {
    const guest = ['--wasm', fixture('c/files.wasm')];
    const { status, stdout, stderr } = spear('--journals', corpus.journal('files'), ...guest, '--json');
    expect([status, stderr]).toEqual([0, '1 run: 1 unchanged, 0 differ\n']);
    expect(JSON.parse(stdout)).toEqual({
      file: corpus.journal('files'),
      run: expect.stringMatching(/^run-/),
      task: 'counting',
      verdict: 'same',
      difference: null,
      problem: null,
      unfinished: false,
      no_longer_shown: [],
    });
  });

  it('exits with 2 where a journal cannot be used, whatever the others are', () => {
    const folder = join(corpus.folder, 'mixed');
    mkdirSync(folder);
    copyFileSync(corpus.journal('files'), join(folder, 'a.journal'));
    writeFileSync(join(folder, 'b.journal'), readFileSync(corpus.journal('sum'), 'utf8').replace('"ms":', '"mS":'));
    writeFileSync(join(folder, 'README'), 'not a journal');
    const { status, stdout } = spear('--journals', folder, '--policy', corpus.records({ allowed_tools: ['seen'] }));
    expect(status).toBe(2);
    expect(stdout).toContain('b.journal: line ');
    expect(stdout).toContain('2 runs: 0 unchanged, 1 differ, 1 unusable');
  });

  it.each([
    [[], 'missing --journals PATH'],
    [['--journals', 'nowhere'], 'nowhere: cannot be read (ENOENT)'],
    [['--journals', corpus.records()], 'contains no journal'],
    [['--journals', journals, 'x'], 'unexpected argument "x"'],
    [['--journals', journals, '--strict'], '--strict needs --policy'],
    [['--journals', journals, '--jobs', '0'], '--jobs: expected a whole number from 1 to 64'],
    [['--journals', journals, '--polcy', 'x'], 'did you mean --policy'],
    [['--journals', journals, '--wasm', 'none.wasm'], 'none.wasm: no such file'],
    [['--journals', journals, '--policy', 'none'], 'none: cannot be read (ENOENT)'],
  ])('%j is bad usage', (args, why) => {
    const { status, stdout, stderr } = spear(...args);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toContain(why);
  });

  it('ends in peace when nobody reads any more', async () => {
    const args = [builtCommand('spear'), 'test', '--journals', journals, '--json', '--jobs', '1'];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    child.stderr.on('data', (chunk) => {
      said += chunk;
    });
    child.stdout.destroy();
    const [code] = await once(child, 'close');
    expect(code).toBe(130);
    expect(said).toMatch(/^\d of 3 runs: \d unchanged, 0 differ\n$/);
  });

  it('tells what is known when it is interrupted', async () => {
    const folder = join(corpus.folder, 'many');
    mkdirSync(folder);
    const count = 200;
    for (let run = 0; run < count; run++) copyFileSync(corpus.journal('sum'), join(folder, `${run}.journal`));
    const args = [builtCommand('spear'), 'test', '--journals', folder, '--json', '--jobs', '2'];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    let said = '';
    child.stderr.on('data', (chunk) => {
      said += chunk;
    });
    child.stdout.on('data', (chunk) => {
      if (printed === '') child.kill('SIGINT');
      printed += chunk;
    });
    const [code] = await once(child, 'close');
    const lines = printed.trim().split('\n');
    expect(code).toBe(130);
    expect(lines.length).toBeLessThan(count);
    expect(lines.map((line) => JSON.parse(line).verdict)).toEqual(lines.map(() => 'same'));
    expect(said).toBe(`${lines.length} of ${count} runs: ${lines.length} unchanged, 0 differ\n`);
  });
});
