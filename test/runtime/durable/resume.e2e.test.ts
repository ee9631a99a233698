import { spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { RecordedRun } from '../../../src/runtime/durable/recorded-run.ts';
import { builtCommand } from '../../support/built-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-resume-'));
afterAll(() => rmSync(folder, { recursive: true }));

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const calls = join(folder, 'calls');
const mcpDir = join(folder, 'mcp.d');
const whole = join(folder, 'whole.journal');
const labels = ['a', 'b', 'c'];
/** A run for each record, each with a server of its own. */
const RESUMES_MS = 240_000;
/** Every record in turn takes a minute; of the usual run it is every third, others each time. */
const STRIDE = process.env.SPEAR_EVERY_BLOCK ? 1 : 3;

const call = (label: string) => ({ id: label, name: 'count_work', arguments: { label } });
const script = {
  turns: [
    { when: { role: 'user' }, reply: { tool_calls: [call('a')] } },
    { when: { tool_call_id: 'a' }, reply: { tool_calls: [call('b'), call('c')] } },
    { when: { tool_call_id: 'c' }, reply: { content: 'all done' } },
  ],
};

function writeRecord(more: object = {}): void {
  const record = {
    server_id: 'count',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [fixture('mcp-servers/counting.mjs')], env: { TRAIL: calls } },
    allowed_tools: ['*'],
    ...more,
  };
  writeFileSync(join(mcpDir, 'count.json'), JSON.stringify(record));
}

const spearRun = (...args: string[]) => {
  rmSync(calls, { force: true });
  const { status, stdout, stderr } = spawnSync(process.execPath, [builtCommand('spear-run'), ...args], {
    encoding: 'utf8',
    input: '',
    cwd: folder,
  });
  return { status, stdout, stderr, done: existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [] };
};

const command = ['--task-config', 'task.json', '--mcp-dir', 'mcp.d', '--script', 'script.json', '--approve', 'deny'];
const recordArgs = (file: string) => [fixture('c/files.wasm'), ...command, '--journal', file];

/** The ends of all records of a journal, in bytes: where a run can have been killed. */
function recordEnds(file: string): number[] {
  let at = 0;
  return readFileSync(file, 'utf8')
    .split(/(?<=\n)/)
    .map((line) => {
      at += Buffer.byteLength(line);
      return at;
    });
}

const recordedIn = (file: string) => new RecordedRun(readJournal(file));
const startedIn = (file: string) =>
  readJournal(file).records.flatMap((record) =>
    record.t === 'tool.started' ? [(JSON.parse(record.args) as { label: string }).label] : [],
  );
/** Calls that were sent, and of which nothing more is known. */
const unknownIn = (file: string) => {
  const run = recordedIn(file);
  return readJournal(file).records.filter(
    (record) => record.t === 'tool.started' && run.tool(record.ordinal)?.finished === null,
  );
};

let output = '';

beforeAll(() => {
  mkdirSync(mcpDir);
  writeRecord();
  writeFileSync(
    join(folder, 'task.json'),
    JSON.stringify({ name: 'r', config: { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["count"]' } }),
  );
  writeFileSync(join(folder, 'script.json'), JSON.stringify(script));
  const run = spearRun(...recordArgs(whole));
  expect(run).toMatchObject({ status: 0, done: labels });
  output = run.stdout;
});

describe('a run that was killed', () => {
  it(
    'after any record of its journal resumes: no call and no output is repeated [journal.resume]',
    () => {
      const bytes = readFileSync(whole);
      expect(output).toContain('all done');
      const first = randomInt(STRIDE);
      for (const end of recordEnds(whole).filter((_, index) => index % STRIDE === first)) {
        const file = join(folder, `killed-${end}.journal`);
        writeFileSync(file, bytes.subarray(0, end + 7)); // and half of a line
        const printed = recordedIn(file).outputBytes.stdout;
        const started = startedIn(file);
        const unknown = unknownIn(file);
        const run = spearRun('--resume', file);
        expect(run).toMatchObject({ status: 0, stdout: output.slice(printed) });
        expect(run.done).toEqual(labels.filter((label) => !started.includes(label)));
        const text = readFileSync(file, 'utf8');
        expect(text.split('"code":"mcp_outcome_unknown"').length - 1).toBe(unknown.length);
        expect(statSync(file).mode & 0o777).toBe(0o600);
      }
    },
    RESUMES_MS,
  );

  it('repeats a call with unknown outcome if the server lists it as repeatable [journal.unknown]', () => {
    const bytes = readFileSync(whole);
    const end = recordEnds(whole).find((at) => bytes.subarray(0, at).includes('"t":"tool.started"')) ?? 0;
    const file = join(folder, 'repeatable.journal');
    writeFileSync(file, bytes.subarray(0, end));
    writeRecord({ repeatable: ['work'] });
    expect(spearRun('--resume', file)).toMatchObject({ status: 0, done: labels });
    writeRecord();
    expect(readFileSync(file, 'utf8')).toContain('"attempt":2');
  });

  it('by a real SIGKILL resumes as well', async () => {
    rmSync(calls, { force: true });
    const file = join(folder, 'sigkill.journal');
    const child = spawn(process.execPath, [builtCommand('spear-run'), ...recordArgs(file)], { cwd: folder });
    let printed = '';
    child.stdout.on('data', (chunk) => {
      printed += chunk;
    });
    const closed = new Promise((resolve) => child.once('close', resolve));
    const timer = setInterval(() => {
      if (existsSync(calls)) child.kill('SIGKILL');
    }, 1);
    await closed;
    clearInterval(timer);
    const before = readFileSync(calls, 'utf8').trim().split('\n');
    const run = spearRun('--resume', file);
    expect(run.status).toBe(0);
    expect(printed + run.stdout).toBe(output);
    for (const label of labels) {
      const times = [...before, ...run.done].filter((done) => done === label).length;
      expect(times).toBeLessThanOrEqual(1);
    }
  });
});

describe('a run that is not to be resumed', () => {
  it('is one that has ended: its exit code stays, and nothing is done', () => {
    const run = spearRun('--resume', whole);
    expect(run).toMatchObject({ status: 0, stdout: '', done: [] });
    expect(run.stderr).toContain('has already ended');
  });

  it('is one whose beginning would be another', () => {
    expect(spearRun('--resume', whole, '--env', 'A=1')).toMatchObject({ status: 125, stdout: '' });
    expect(spearRun(fixture('c/hello.wasm'), '--resume', whole).stderr).toContain('recorded with module sha256');
  });
});
