import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { builtCommand } from '../../support/built-command.ts';
import { NodeLives, writeNodeFolder } from '../../torture/node/node-life.ts';

// `spearlet backup` and `spearlet restore` as they are installed, beside a node that is another process.

const HANGS_MS = 50_000;
/** A model that does not answer while the test lasts: its run has not ended when the backup is made. */
const SILENT_MS = 600_000;
const RUNS = '/v1/namespaces/default/runs';
const tasks = (name: string) => `/v1/namespaces/default/tasks/${name}/runs`;
let folder = '';
let node: NodeLives;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'spear-backup-commands-'));
  writeNodeFolder(folder, { turnMs: SILENT_MS, node: 'drain_ms = 0' });
  node = new NodeLives(folder);
  await node.start();
});
afterEach(async () => {
  await node.kill();
  rmSync(folder, { recursive: true, force: true });
});

interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function spearlet(...args: string[]): Promise<Finished> {
  const options = { env: { PATH: process.env.PATH, HOME: folder }, timeout: HANGS_MS };
  return new Promise((resolve) => {
    execFile(process.execPath, [builtCommand('spearlet'), ...args], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

const copy = (verb: 'backup' | 'restore', file: string) =>
  spearlet(verb, file, '--data', join(folder, 'data'), '--config', join(folder, 'config.toml'));
const run = async (id: string) => JSON.parse((await node.ask('GET', `${RUNS}/${id}`)).text) as RunRecord;
const listed = async () => {
  const { runs } = JSON.parse((await node.ask('GET', RUNS)).text) as { readonly runs: readonly RunRecord[] };
  return runs.map(({ id }) => id).sort();
};
const submit = async (task: string, headers: Record<string, string> = {}) =>
  (await node.ask('POST', tasks(task), { body: 'x', headers })).headers.get('spear-run') ?? '';
const finished = (task: string) => submit(task, { prefer: 'wait=60' });

/** A sum of every file of the data directory. Precondition: the node does not serve. */
function content(): Record<string, string> {
  const data = join(folder, 'data');
  const paths = readdirSync(data, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(data, path)).isFile(),
  );
  const sum = (path: string) =>
    createHash('sha256')
      .update(readFileSync(join(data, path)))
      .digest('hex');
  return Object.fromEntries(paths.sort().map((path) => [path, sum(path)]));
}

describe('spearlet backup and restore', () => {
  it('copy a node while it serves, and bring the copy back as a new epoch [node.backup] [node.restore] [node.restore.unknown]', async () => {
    const archive = join(folder, 'node.backup');
    const before = await finished('hello');
    const unfinished = await submit('agent');
    await expect.poll(async () => (await run(unfinished)).status).toBe('running');
    expect(await copy('backup', archive)).toEqual({
      ...{ code: 0, stderr: '' },
      stdout: `backup of ${join(folder, 'data')} written to ${archive} by the serving node\n`,
    });
    expect(statSync(archive).mode & 0o777).toBe(0o600);
    const after = await finished('hello');

    // A restore is rejected while a node serves, and the node continues undisturbed.
    expect(await copy('restore', archive)).toMatchObject({
      ...{ code: 1, stdout: '' },
      stderr: expect.stringMatching(/runs\.db is in use: stop the node, then restore/),
    });
    expect(await listed()).toEqual([before, unfinished, after].sort());
    expect((await node.ask('GET', '/readyz')).status).toBe(200);
    expect(existsSync(join(folder, 'data', 'before-restore'))).toBe(false);

    expect(await node.stop()).toBe(0);
    const restored = await copy('restore', archive);
    expect(restored).toMatchObject({ code: 0, stderr: '' });
    expect(restored.stdout).toContain(`restored from ${archive}`);
    expect(restored.stdout).toContain('1 run had not ended: it resumes');
    expect(restored.stdout).toContain(`the replaced data is in ${join(folder, 'data', 'before-restore')}`);
    expect(existsSync(join(folder, 'data', 'before-restore', 'runs.db'))).toBe(true);

    // The model answers now, and asks for tools.
    writeNodeFolder(folder);
    await node.start();
    expect(await listed()).toEqual([before, unfinished].sort());
    expect((await node.ask('GET', `${RUNS}/${before}/result`)).text).toBe('hello from C\n');
    expect((await node.ask('GET', `${RUNS}/${before}/journal`)).text).toContain('"t":"end"');
    await expect.poll(async () => (await run(unfinished)).status).toBe('succeeded');
    expect((await node.ask('GET', `${RUNS}/${unfinished}/journal`)).text).toContain('mcp_outcome_unknown');
    // The old node may have made these calls after the backup, so the new one makes none of them.
    expect(existsSync(join(folder, 'trail'))).toBe(false);
    // A run of the new epoch calls its tools.
    const fresh = await finished('agent');
    expect(readFileSync(join(folder, 'trail'), 'utf8').trim().split('\n')).toHaveLength(3);
    expect((await run(fresh)).status).toBe('succeeded');
  });

  it('reject a damaged archive before anything changes, and copy a stopped node [node.restore.checked] [node.backup]', async () => {
    const archive = join(folder, 'node.backup');
    const before = await finished('hello');
    // Killed: its socket stays.
    await node.kill();
    expect(await copy('backup', archive)).toEqual({
      ...{ code: 0, stderr: '' },
      stdout: `backup of ${join(folder, 'data')} written to ${archive}\n`,
    });
    const whole = readFileSync(archive);
    const changed = Buffer.from(whole);
    changed[Math.floor(whole.length / 2)] = (changed[Math.floor(whole.length / 2)] ?? 0) ^ 1;
    const kept = content();
    expect(Object.keys(kept)).toContain('runs.db');
    for (const bytes of [changed, whole.subarray(0, whole.length / 2), Buffer.alloc(0), Buffer.from('no archive')]) {
      const damaged = join(folder, 'damaged.backup');
      writeFileSync(damaged, bytes);
      const refused = await copy('restore', damaged);
      expect(refused).toMatchObject({ code: 1, stdout: '' });
      expect(refused.stderr).toContain(`${damaged} cannot be restored: `);
      expect(content()).toEqual(kept);
    }
    const missing = await copy('restore', join(folder, 'none.backup'));
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('none.backup cannot be restored: ') });
    expect(content()).toEqual(kept);

    // A node on another machine: there is nothing yet.
    rmSync(join(folder, 'data'), { recursive: true });
    expect(await copy('restore', archive)).toMatchObject({ code: 0 });
    await node.start();
    expect(await listed()).toEqual([before]);
    expect((await node.ask('GET', `${RUNS}/${before}/result`)).text).toBe('hello from C\n');
  });

  it('are in the help, and say what they need', async () => {
    const { stdout } = await spearlet('--help');
    expect(stdout).toMatch(/Commands:\n\s+spearlet backup FILE[\s\S]*\n\s+spearlet restore FILE/);
    expect((await spearlet('backup', '--help')).stdout).toContain('spearlet backup FILE [options]');
    expect((await spearlet('restore', '--help')).stdout).toMatch(/the node must not be serving[\s\S]*before-restore/);
    for (const verb of ['backup', 'restore']) {
      expect(await spearlet(verb)).toMatchObject({ code: 2, stderr: expect.stringContaining('missing FILE') });
    }
    const nowhere = await spearlet('backup', join(folder, 'x'), '--data', join(folder, 'none'));
    expect(nowhere).toMatchObject({ code: 1, stderr: expect.stringContaining('no runs.db in') });
    expect(existsSync(join(folder, 'x'))).toBe(false);
  });
});
