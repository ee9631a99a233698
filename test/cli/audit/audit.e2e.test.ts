import { type ChildProcessByStdio, execFile, spawn } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { auditKey } from '../../../src/server/audit/chain.ts';
import { auditJson } from '../../../src/server/audit/line-json.ts';
import { eventually } from '../../agent/mcp/client/pool-samples.ts';
import { filesOf, newTrail, numbered, openWriter, samples, smsSamples } from '../../server/audit/audit-samples.ts';

// Every command is a process of its own, and a busy machine starts those slowly.
vi.setConfig({ testTimeout: 60_000 });

const entry = fileURLToPath(new URL('../../../bin/spear.cjs', import.meta.url));
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);

interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function audit(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> {
  return new Promise((resolve) => {
    const options = { env: { PATH: process.env.PATH, HOME: '/nowhere', ...env }, timeout: 30_000, maxBuffer: 1e8 };
    execFile(process.execPath, [entry, 'audit', ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** A trail of events of every kind, or of so many numbered ones. */
function trail(count?: number, maxBytes = 0): string {
  const path = newTrail();
  const writer = openWriter(path, { maxBytes, keep: 100 });
  const events =
    count === undefined
      ? samples.map((event) => auditJson('a task', 'run-1', event))
      : range(0, count).map((number) => numbered(number));
  for (const event of events) writer.append([event]);
  writer.end();
  return path;
}

describe('spear audit verify', () => {
  it('exits with 0 and a summary of a trail that is whole [audit.verify]', async () => {
    const path = trail();
    const { code, stdout, stderr } = await audit(['verify', path]);
    expect([code, stderr]).toEqual([0, '']);
    const [first, chain, ...more] = stdout.trimEnd().split('\n');
    expect(first).toBe(`${path}: 19 lines in 1 chain, intact`);
    expect(chain).toMatch(/^ {2}[0-9a-f]{16} {2}\d{4}-.*Z to \d{4}-.*Z {2}19 lines, ended$/);
    expect(more).toEqual(['  9980 repeated events were counted instead of written']);
  });

  it('exits with 1 and names the first bad line of one that is not [audit.verify]', async () => {
    const path = trail();
    writeFileSync(path, readFileSync(path, 'utf8').replace('"module":"a.wasm"', '"module":"b.wasm"'));
    expect(await audit(['verify', path])).toEqual({
      code: 1,
      stdout: `${path}:2: changed: the hash does not match the text of the line\n`,
      stderr: '',
    });
  });

  it('finds the rotated files by itself, and takes several in the order given [audit.verify] [audit.rotation]', async () => {
    const path = trail(100, 4_096);
    const files = filesOf(path);
    const { code, stdout } = await audit(['verify', path]);
    expect([code, stdout]).toEqual([0, expect.stringContaining(`${path}.1 to ${path}: `)]);
    expect((await audit(['verify', ...files])).code).toBe(0);
    const [first = '', second = ''] = files;
    const swapped = await audit(['verify', second, first]);
    expect([swapped.code, swapped.stdout]).toEqual([1, expect.stringContaining(`${first}:1: duplicated`)]);
  });

  it('says what it cannot know: a chain that did not end [audit.verify]', async () => {
    const path = newTrail();
    openWriter(path).append([numbered(0)]);
    const { code, stdout } = await audit(['verify', path]);
    expect([code, stdout]).toEqual([0, expect.stringContaining('no end: its process is running or was killed, or')]);
  });

  it('answers in JSON, with the hash that ends each chain [audit.verify]', async () => {
    const path = trail();
    const { stdout } = await audit(['verify', path, '--json']);
    const last = JSON.parse(readFileSync(path, 'utf8').trimEnd().split('\n').at(-1) ?? '') as { hash: string };
    expect(JSON.parse(stdout)).toMatchObject({
      ok: true,
      files: [path],
      problem: null,
      lines: 19,
      chains: [{ lines: 19, from: 0, ended: true, head: last.hash, first_ts: expect.any(String) }],
      repaired: 0,
      lost: 0,
      unchained: 0,
    });
    writeFileSync(path, readFileSync(path, 'utf8').split('\n').toSpliced(3, 1).join('\n'));
    const broken = await audit(['verify', path, '--json']);
    expect([broken.code, JSON.parse(broken.stdout)]).toMatchObject([
      1,
      { ok: false, problem: { file: path, line: 4, kind: 'missing' } },
    ]);
  });

  it('exits with 2 where it cannot read, and says so', async () => {
    expect(await audit(['verify', '/nowhere/audit.jsonl'])).toEqual({
      code: 2,
      stdout: '',
      stderr: 'spear: /nowhere/audit.jsonl: cannot be read (ENOENT)\n',
    });
  });

  it('takes the file of the config if none is named [audit.config]', async () => {
    const path = trail();
    const config = join(path, '..', 'config.toml');
    writeFileSync(config, '[audit]\nfile = "audit.jsonl"\n');
    for (const [flags, env] of [
      [['--config', config], {}],
      [[], { SPEAR_CONFIG: config }],
    ] as const) {
      expect((await audit(['verify', ...flags], env)).stdout).toContain(`${path}: 19 lines`);
    }
  });
});

describe('spear audit verify --strict', () => {
  it('is 0 for a trail that is all there [audit.strict]', async () => {
    expect((await audit(['verify', trail(), '--strict'])).code).toBe(0);
  });

  it('says what rotation took away, and is 1 only if asked to be strict [audit.strict]', async () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 4_096, keep: 1 });
    for (const number of range(0, 60)) writer.append([numbered(number)]);
    writer.end();
    const { code, stdout } = await audit(['verify', path]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/ {2}\d+ older files were removed by rotation\n/)]);
    expect(stdout).toMatch(/ {2}\d+ lines of these chains were in removed files\n/);
    const strict = await audit(['verify', path, '--strict', '--json']);
    expect([strict.code, JSON.parse(strict.stdout)]).toEqual([
      1,
      expect.objectContaining({ ok: false, problem: null }),
    ]);
    expect(JSON.parse(strict.stdout).gone_files).toBeGreaterThan(0);
  });

  it.each<[string, (writer: ReturnType<typeof openWriter>) => unknown]>([
    ['a chain has no end', (writer) => writer.append([numbered(0)])],
    [
      'lines were lost',
      (writer) => {
        writer.append([numbered(0)], 3);
        writer.end();
      },
    ],
  ])('is 1 where %s [audit.strict]', async (_, write) => {
    const path = newTrail();
    write(openWriter(path));
    expect((await audit(['verify', path])).code).toBe(0);
    expect((await audit(['verify', path, '--strict'])).code).toBe(1);
  });
});

describe('spear audit verify --key', () => {
  const secret = 'the key of this trail';
  const keyFile = () => {
    const file = `${newTrail()}.key`;
    writeFileSync(file, `${secret}\n`, { mode: 0o600 });
    return file;
  };
  const keyed = () => {
    const path = newTrail();
    const writer = openWriter(path, { key: auditKey(secret) });
    writer.append([numbered(0)]);
    writer.end();
    return path;
  };

  it('checks what the lines are signed with, from a file or a variable [audit.key]', async () => {
    const path = keyed();
    expect((await audit(['verify', path, '--key', `file:${keyFile()}`])).code).toBe(0);
    expect((await audit(['verify', path, '--key', 'env:AUDIT_KEY'], { AUDIT_KEY: secret })).code).toBe(0);
    const wrong = await audit(['verify', path, '--key', 'env:AUDIT_KEY'], { AUDIT_KEY: 'some other key of mine' });
    expect([wrong.code, wrong.stdout]).toEqual([1, expect.stringContaining(':1: key: chain ')]);
  });

  it('without it says what it could not check [audit.key]', async () => {
    const { code, stdout } = await audit(['verify', keyed()]);
    const id = auditKey(secret).id;
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining(`key ${id}, not given: only sequence numbers and links were checked`),
    ]);
  });

  it('is that of the config for the file of the config [audit.key]', async () => {
    const path = keyed();
    const config = `${path}.toml`;
    const text = (key: string) => `[audit]\nfile = ${JSON.stringify(path)}\nkey = "file:${key}"\n`;
    writeFileSync(config, text(keyFile()));
    expect((await audit(['verify', '--config', config])).stdout).not.toContain('not given');
    writeFileSync(config, text('/nowhere/key'));
    const { code, stderr } = await audit(['verify', '--config', config]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('audit.key: file:/nowhere/key: the file cannot be read'),
    ]);
  });
});

describe('spear audit tail', () => {
  it('shows the trail of a registry [audit.sms]', async () => {
    const path = newTrail();
    const writer = openWriter(path);
    for (const event of smsSamples) writer.append([auditJson(null, null, event)]);
    writer.end();
    const { stdout } = await audit(['tail', path, '-n', 'all', '--event', 'sms.*']);
    const lines = stdout.trimEnd().split('\n');
    expect(
      lines.map((line) =>
        line
          .replace(/^\S+Z {2}/, '')
          .replaceAll(/ +/g, ' ')
          .trimEnd(),
      ),
    ).toEqual([
      'sms.started http://a:2 and a:1 revision 7',
      'sms.write_started fs by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.record_changed fs update of tags by ci from 127.0.0.1, http PUT /servers/{id} revision 8',
      'sms.profile_write_started review by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.profile_changed review update of server_ids by ci from 127.0.0.1, http PUT /servers/{id} revision 3',
      'sms.stop_write_started 3f9a12bc by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.stop_changed 3f9a12bc create by ci from 127.0.0.1, http PUT /servers/{id} revision 1',
      'sms.task_write_started default/notes by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.task_changed default/notes update of live by ci from 127.0.0.1, http PUT /servers/{id} revision 3',
      'sms.token_write_started ci by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.token_changed ci create by ci from 127.0.0.1, http PUT /servers/{id} revision 1',
      'sms.approval_write_started a-1 by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.approval_requested fs tool write_file always {"path":"/x"} 0123456789abcdef-1 run-1 by ci from 127.0.0.1, http PUT /servers/{id} chat-1',
      'sms.approval_decided fs tool write_file denied no 0123456789abcdef-1 deny by ci from 127.0.0.1, http PUT /servers/{id} chat-1',
      'sms.approval_ended fs tool write_file used 0123456789abcdef-1 by ci from 127.0.0.1, http PUT /servers/{id} chat-1',
      'sms.approval_read fs tool write_file 0123456789abcdef-1 by ci from 127.0.0.1, http PUT /servers/{id} chat-1',
      'sms.journal_read default/run-1 by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.login until 2026-01-01T08:00:00.000Z by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.served 200 by ci from 127.0.0.1, http PUT /servers/{id}',
      'sms.refused denied unauthorized 401 by an unknown caller from 127.0.0.1, http PUT /servers/{id}',
      'sms.reloaded applied 3 changes, 0 problems by the registry',
      'sms.ended',
    ]);
  });

  it('shows the last lines for people, without colours where there is no terminal', async () => {
    const { code, stdout } = await audit(['tail', trail()]);
    expect(code).toBe(0);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.replace(/^\S+Z {2}/, '').replaceAll(/ +/g, ' '));
    expect(lines).toEqual([
      expect.stringMatching(/^chain\.started chain [0-9a-f]{16}, process \d+ of \S+( \d+)? on \S+$/),
      'guest.started a.wasm, sha256 cccccccccccc…, task a task, run-1',
      'guest.ended exit code 0 3 ms',
      'session.created servers: fs, excluded: x (unknown_server) revision 1 chat-1',
      'mcp.injected fs ok 3 tools 1 ms chat-1',
      'tool_call.started fs read {"path":"a.txt"} chat-1 call_1',
      'tool_call.finished fs read ok 1 ms 2 bytes revision 7 chat-1 call_1',
      'approval.asked fs read approval_policy: always revision 7 chat-1 call_1',
      'approval.decided fs read allowed allow_once by terminal 900 ms revision 7 chat-1 call_1',
      'registry.applied changed: fs revision 8',
      'budget.hit max_iterations',
      'model_call.finished ok openai small, 7 tokens in 20 ms chat-1',
      'events.folded fs write denied denied_by_task 9980 more tool_call.finished until 2026-01-02T03:04:15.678Z',
      'registry.state [unauthenticated] refused',
      'profiles.applied changed: review revision 2',
      'elicitation.asked fs read url at login.example chat-1 call_1',
      'elicitation.answered fs read no user is available to answer form: decline by nobody 0 ms chat-1 call_1',
      'tool_call.progress fs read at 1 chat-1 call_1',
      expect.stringMatching(/^chain\.ended chain [0-9a-f]{16}$/),
    ]);
    expect(stdout).not.toContain('\u001b');
  });

  it('takes so many of the last lines that match, from older files too [audit.rotation]', async () => {
    const path = trail(200, 4_096);
    const numbers = async (...flags: string[]) => {
      const { stdout } = await audit(['tail', path, '--event', 'budget.*', ...flags]);
      return [...stdout.matchAll(/budget\.hit +(\d+)$/gm)].map(([, number]) => Number(number));
    };
    expect(await numbers()).toEqual(range(180, 200));
    expect(await numbers('-n', '75')).toEqual(range(125, 200));
    expect(await numbers('-n', 'all')).toEqual(range(0, 200));
    expect(await numbers('-n', '0')).toEqual([]);
  });

  it('with --json gives the lines as they are', async () => {
    const path = trail();
    const { stdout } = await audit(['tail', path, '--json', '-n', 'all']);
    expect(stdout).toBe(readFileSync(path, 'utf8'));
  });

  it('never lets a name reach the terminal as a command', async () => {
    const path = newTrail();
    const writer = openWriter(path);
    const evil = '\u001b]0;owned\u0007\u001b[2J\r\n';
    writer.append([auditJson(evil, 'run-1', { ...samples[9], tool_name: evil, budget: evil })]);
    writer.append([auditJson(null, 'run-1', { ...samples[4], args: { [evil]: evil } })]);
    writer.end();
    const { stdout } = await audit(['tail', path]);
    expect(stdout.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
    expect(stdout.split('\n')).toHaveLength(5);
  });

  it.runIf(process.platform === 'linux')('has colours on a terminal, unless NO_COLOR is set', async () => {
    const path = trail();
    const onTerminal = (env: NodeJS.ProcessEnv) =>
      new Promise<string>((resolve) => {
        const line = `${process.execPath} ${entry} audit tail ${path}`;
        const options = { env: { PATH: process.env.PATH, HOME: '/nowhere', TERM: 'xterm', ...env } };
        execFile('script', ['-qec', line, '/dev/null'], options, (_, stdout) => resolve(stdout));
      });
    expect(await onTerminal({})).toContain('\u001b[32mok\u001b[0m');
    const plain = await onTerminal({ NO_COLOR: '1' });
    expect([plain.includes('tool_call.finished'), plain.includes('\u001b[3')]).toEqual([true, false]);
  });

  /** A tail that follows, and what it has shown so far. */
  function following(path: string, ...flags: string[]) {
    const child: ChildProcessByStdio<null, Readable, null> = spawn(
      process.execPath,
      [entry, 'audit', 'tail', path, '-f', '--json', ...flags],
      { env: { PATH: process.env.PATH, HOME: '/nowhere' }, stdio: ['ignore', 'pipe', 'ignore'] },
    );
    onTestFinished(() => void child.kill('SIGKILL'));
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (more: string) => {
      text += more;
    });
    const budgets = () =>
      text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as { event: string; budget?: string })
        .flatMap(({ event, budget }) => (event === 'budget.hit' ? [Number(budget)] : []));
    return { child, budgets };
  }

  it('follows what is added, over rotations, with nothing twice and nothing left out [audit.rotation]', async () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 4_096, keep: 1_000 });
    for (const number of range(0, 30)) writer.append([numbered(number)]);
    const { child, budgets } = following(path, '-n', '5');
    await eventually(() => expect(budgets()).toEqual(range(25, 30)), 20_000);
    for (const number of range(30, 300)) writer.append([numbered(number)]);
    await eventually(() => expect(budgets()).toEqual(range(25, 300)), 20_000);
    renameSync(path, `${path}.1000`);
    for (const number of range(300, 310)) writer.append([numbered(number)]);
    await eventually(() => expect(budgets()).toEqual(range(25, 310)), 20_000);
    writer.end();
    child.kill('SIGINT');
  });

  it('ends when its reader goes away', async () => {
    const path = newTrail();
    const writer = openWriter(path);
    writer.append([numbered(0)]);
    const { child, budgets } = following(path);
    await eventually(() => expect(budgets()).toEqual([0]), 20_000);
    child.stdout.destroy();
    await eventually(() => {
      writer.append([numbered(1)]);
      expect([child.exitCode, child.signalCode]).toEqual([0, null]);
    }, 20_000);
  });
});

it('spear audit --help and spear --help tell of both', async () => {
  const { code, stdout } = await audit(['--help']);
  expect([code, stdout]).toEqual([0, expect.stringContaining('spear audit verify')]);
  expect((await audit(['tail', '--help'])).stdout).toContain('spear audit tail [FILE] [options]');
  const help = await new Promise<string>((resolve) => {
    execFile(process.execPath, [entry, '--help'], (_, text) => resolve(text));
  });
  expect(help).toMatch(/spear audit verify \[FILE...\][\s\S]*spear audit tail \[FILE\]/);
});
