import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { rotatedFiles } from '../../../src/server/audit/file.ts';
import { verifyTrail } from '../../../src/server/audit/verify.ts';
import { eventually } from '../../agent/mcp/client/pool-samples.ts';
import { recordDir, recordOf, script, taskWithMcp } from '../../agent/mcp/mcp-run.ts';
import { Cli, fixture, scratch, spearRun } from '../../e2e/spear-run.ts';
import { auditLines, trailLines } from '../../server/audit/audit-schema.ts';

vi.setConfig({ testTimeout: 60_000 });

let files = 0;
const auditFile = () => join(scratch, `audit-run-${++files}.jsonl`);
const read = (path: string) => auditLines(readFileSync(path, 'utf8'));

/** A run whose model calls `tiny_echo` with the arguments once. */
const echoing = (args: Record<string, string>) => [
  fixture('c/files.wasm'),
  ...taskWithMcp(['tiny']),
  ...['--mcp-dir', recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs') })],
  ...script(
    { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'tiny_echo', arguments: args }] } },
    { reply: { content: 'done' } },
  ),
];

describe('the flags', () => {
  it('have no effect without a trail, which is said', async () => {
    const { code, stderr } = await spearRun([fixture('c/hello.wasm'), '--audit-keep', '3']);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: 'spear-run: --audit-keep has no effect without --audit FILE\n',
    });
  });
});

describe('standard output', () => {
  it('has the trail with --audit -, and the guest has stderr', async () => {
    const { code, stdout, stderr } = await spearRun([fixture('c/hello.wasm'), '--audit', '-']);
    expect([code, stderr]).toEqual([0, 'hello from C\n']);
    expect(trailLines(stdout).map(({ event }) => event)).toEqual([
      'chain.started',
      'guest.started',
      'guest.ended',
      'chain.ended',
    ]);
    const copy = auditFile();
    writeFileSync(copy, stdout);
    expect(verifyTrail([copy]).problem).toBeNull();
  });

  it('cannot be shared with --json', async () => {
    const { code, stdout, stderr } = await spearRun([fixture('c/hello.wasm'), '--audit', '-', '--json']);
    expect(code).toBe(125);
    expect(stderr).toBe('spear-run: --audit - and --json both write to stdout; pass a file to --audit\n');
    expect(JSON.parse(stdout)).toMatchObject({ reason: 'usage' });
  });
});

describe('the config of the node', () => {
  it('turns the trail on for every run, beside the config [audit.config]', async () => {
    const config = join(scratch, 'audited.toml');
    writeFileSync(config, '[audit]\nfile = "node.jsonl"\nargs = "shape"\nmax_bytes = 8192\nkeep = 2\n');
    const path = join(scratch, 'node.jsonl');
    const args = [...echoing({ message: 'hello' }), '--config', config];
    expect((await spearRun(args)).code).toBe(0);
    const started = read(path).find(({ event }) => event === 'tool_call.started');
    expect(started?.args).toEqual({ message: 'string(5)' });
    for (const _ of [1, 2, 3, 4]) expect((await spearRun(args)).code).toBe(0);
    expect(rotatedFiles(path)).toHaveLength(2);
    expect(verifyTrail([...rotatedFiles(path), path]).problem).toBeNull();
  });

  it('gives way to the command line [audit.config]', async () => {
    const config = join(scratch, 'overruled.toml');
    writeFileSync(config, '[audit]\nfile = "unused.jsonl"\nargs = "none"\n');
    const path = auditFile();
    const flags = ['--config', config, '--audit', path, '--audit-args', 'sha256'];
    expect((await spearRun([...echoing({ message: 'hello' }), ...flags])).code).toBe(0);
    const started = read(path).find(({ event }) => event === 'tool_call.started');
    expect(started?.args).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(statSync(join(scratch, 'unused.jsonl'), { throwIfNoEntry: false })).toBeUndefined();
  });

  it.each<[string, string]>([
    ['args = "all"', 'audit.args: expected one of "redacted", "sha256", "shape", "none", found "all"'],
    ['max_bytes = -1', 'audit.max_bytes: must be at least 0, found -1'],
    ['path = "x"', 'audit: unknown key "path" (valid here: file, args, max_bytes, keep, on_failure, key)'],
    ['on_failure = "stop"', 'audit.on_failure: expected one of "continue", "refuse", found "stop"'],
    ['key = "0123456789abcdef"', 'audit.key: must be a reference, env:NAME or file:PATH, never the secret itself'],
    ['file = "a.jsonl"\nkey = "env:NOT_THERE"', 'audit.key: env:NOT_THERE: the environment variable is not set'],
    ['file = "/nowhere/audit.jsonl"', 'audit.file /nowhere/audit.jsonl: cannot be written (ENOENT)'],
  ])('is refused with %s [audit.config]', async (line, message) => {
    const config = join(scratch, 'wrong.toml');
    writeFileSync(config, `[audit]\n${line}\n`);
    const { code, stderr } = await spearRun([fixture('c/hello.wasm'), '--config', config]);
    expect([code, stderr]).toEqual([125, expect.stringContaining(message)]);
  });
});

describe('secrets', () => {
  it('of every kind are not in the trail, in any form of arguments [audit.secrets]', async () => {
    const canary = 'CANARY7d1f09c2';
    const args = {
      message: `curl -H "Authorization: Bearer ${canary}" https://u:${canary}@example.com/?token=${canary}`,
      password: canary,
      apiKey: canary,
      note: `export SECRET=${canary}; login --password ${canary}`,
      token: `sk-${canary}`,
    };
    for (const form of ['redacted', 'sha256', 'shape', 'none']) {
      const path = auditFile();
      const { code } = await spearRun([...echoing(args), '--audit', path, '--audit-args', form]);
      expect(code).toBe(0);
      expect(read(path).filter(({ event }) => event === 'tool_call.started')).toHaveLength(1);
      expect(readFileSync(path, 'utf8')).not.toContain(canary);
    }
  });
});

describe('a run that is interrupted', () => {
  it.each<[string, number]>([
    ['once: the guest ends, and the trail says so', 1],
    ['twice: the host ends at once, and what happened until then is there', 2],
  ])('%s [audit.exit]', async (_, times) => {
    const path = auditFile();
    const cli = new Cli([fixture('c/test/spin.wasm'), '--audit', path]).listen();
    await eventually(() => expect(readFileSync(path, 'utf8')).toContain('"guest.started"'), 20_000);
    for (let time = 0; time < times; time++) cli.child.kill('SIGINT');
    expect((await cli.finished()).code).toBe(130);
    expect(verifyTrail([path])).toMatchObject({ problem: null, chains: [{ ended: true }] });
    const lines = read(path);
    expect(lines[0]).toMatchObject({ event: 'guest.started' });
    if (times === 1) expect(lines.at(-1)).toMatchObject({ event: 'guest.ended', status: 'interrupted' });
  });
});
