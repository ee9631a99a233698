import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixture, scratch, spearRun } from '../../e2e/spear-run.ts';
import { auditEvents, auditLines } from '../../server/audit/audit-schema.ts';
import { fixture as server } from './client/pool-records.ts';
import { startHttp } from './client/pool-samples.ts';
import { recordDir, recordOf, script, taskWith, taskWithMcp } from './mcp-run.ts';

let files = 0;
const auditFile = () => join(scratch, `audit-${++files}.jsonl`);
const linesOf = (path: string) => auditLines(readFileSync(path, 'utf8'));

const secrets = {
  token: 'tok-0123456789-of-the-server',
  literal: 'sk-literal-0123456789',
  bearer: 'bearer-0123456789-of-the-web',
  header: 'header-0123456789-in-clear',
  argument: 'argument-0123456789-of-the-model',
} as const;
const env = { SERVER_TOKEN: secrets.token, WEB_TOKEN: secrets.bearer };
const ref = (name: string) => `\${ENV:${name}}`;

/** Servers that say everything they know to whoever asks, and fail in several ways. */
async function talkativeServers(): Promise<string[]> {
  const web = await startHttp(server('http.mjs'), [], { TOKEN: secrets.bearer });
  const headers = { authorization: `Bearer ${ref('WEB_TOKEN')}`, 'x-api-key': secrets.header };
  const own = { API_TOKEN: ref('SERVER_TOKEN'), SECRET_KEY: secrets.literal };
  const dir = recordDir({
    'closed.json': recordOf('closed', 'tiny.mjs', { allowed_tools: [] }),
    'huge.json': recordOf('huge', 'huge.mjs', { budgets: { max_tool_output_bytes: 500 } }),
    'mute.json': recordOf('mute', 'mute.mjs', { env: own, budgets: { connect_timeout_ms: 2_000 } }),
    'tiny.json': recordOf('tiny', 'tiny.mjs', { env: own }),
    'web.json': {
      server_id: 'web',
      transport: 'streamable_http',
      http: { url: web.url('/mcp'), headers },
      allowed_tools: ['echo', 'headers'],
    },
  });
  const task = taskWithMcp(['closed', 'huge', 'missing', 'mute', 'tiny', 'web'], { 'mcp.tool_denylist': ['pid'] });
  return [...task, '--mcp-dir', dir, '-v'];
}

const expectNoSecret = (where: Record<string, string>) => {
  for (const [name, text] of Object.entries(where)) {
    for (const secret of Object.values(secrets)) expect([name, text.includes(secret)]).toEqual([name, false]);
  }
};

describe('spear-run --audit', () => {
  it('writes what happened, in lines of the schema, and no secret [audit.schema] [audit.secrets]', async () => {
    const audit = auditFile();
    const call = (id: string, name: string, args: Record<string, string | number> = {}) => ({
      id,
      name,
      arguments: args,
    });
    const model = script(
      {
        when: { role: 'user' },
        reply: {
          tool_calls: [
            call('a', 'tiny_echo', { message: secrets.argument }),
            call('b', 'tiny_environment'),
            call('c', 'web_headers'),
            call('d', 'tiny_fail'),
            call('e', 'tiny_pid', { secret: secrets.argument }),
            call('f', 'huge_huge', { bytes: 10_000 }),
            call('g', 'mcp.nowhere.tool', { secret: secrets.argument }),
            call('h', 'tiny_echo', { wrong: secrets.argument }),
          ],
        },
      },
      { reply: { content: 'done' } },
    );
    const flags = [...(await talkativeServers()), ...model, '--audit', audit];
    const { code, stdout, stderr } = await spearRun([fixture('c/files.wasm'), ...flags], { env });
    expect(code).toBe(0);
    const lines = linesOf(audit);
    const elsewhere = /^(approval|elicitation|events|profiles|sms)\.|^(registry\.state|tool_call\.progress)$/;
    const expected = auditEvents.filter((event) => !elsewhere.test(event));
    expect(new Set(lines.map(({ event }) => event))).toEqual(new Set(expected));
    expect(new Set(lines.map(({ instance, task }) => `${task} ${instance}`)).size).toBe(1);
    expect(lines[0]).toMatchObject({
      event: 'registry.applied',
      epoch: expect.stringMatching(/./),
      upserted: ['closed', 'huge', 'mute', 'tiny', 'web'],
      deletes: 0,
    });
    const revision = lines[0]?.revision;
    expect(lines[1]).toMatchObject({ event: 'guest.started', module: 'files.wasm', task: 'test' });
    const module = createHash('sha256')
      .update(readFileSync(fixture('c/files.wasm')))
      .digest('hex');
    expect(lines[1]?.module_sha256).toBe(module);
    expect(lines.at(-1)).toMatchObject({ event: 'guest.ended', status: 'exit', exit_code: 0 });
    expect(lines[2]).toMatchObject({
      event: 'session.created',
      revision,
      servers: ['huge', 'mute', 'tiny', 'web'],
      exclusions: [
        { server_id: 'closed', tool_name: null, reason: 'deny_all', layer: 'registry' },
        { server_id: 'missing', tool_name: null, reason: 'unknown_server', layer: 'registry' },
      ],
    });
    const injected = lines.filter(({ event }) => event === 'mcp.injected');
    expect(injected.map(({ server_id: id, status, reason, tools }) => [id, status, reason, tools])).toEqual([
      ['huge', 'ok', null, 3],
      ['mute', 'failed', 'list_timeout', 0],
      ['tiny', 'ok', null, 4],
      ['web', 'ok', null, 2],
    ]);
    const finished = lines.filter(({ event }) => event === 'tool_call.finished');
    expect(finished.map((line) => line.revision)).toEqual(finished.map(() => revision));
    expect(Object.fromEntries(finished.map((line) => [line.request_id, [line.status, line.reason]]))).toEqual({
      a: ['ok', null],
      b: ['ok', null],
      c: ['ok', null],
      d: ['failed', 'mcp_tool_error'],
      e: ['denied', 'denied_by_task'],
      f: ['failed', 'mcp_output_too_large'],
      g: ['denied', 'not_injected'],
      h: ['failed', 'mcp_invalid_arguments'],
    });
    const begun = lines.filter(({ event }) => event === 'tool_call.started');
    expect(begun.map(({ request_id }) => request_id).sort()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
    expect(Object.fromEntries(begun.map((line) => [line.request_id, line.args]))).toEqual({
      a: { message: '[redacted]' },
      b: {},
      c: {},
      d: {},
      e: { secret: '[redacted]' },
      f: { bytes: 10_000 },
      g: { secret: '[redacted]' },
      h: { wrong: '[redacted]' },
    });
    expect(stderr).toContain('waiting for a database with [redacted]');
    expectNoSecret({ audit: readFileSync(audit, 'utf8'), stdout, stderr });
  });

  it('and what a tool finds out about its server is no secret either [audit.secrets]', async () => {
    const flags = await talkativeServers();
    for (const [id, tool] of [
      ['tiny', 'environment'],
      ['web', 'headers'],
    ] as const) {
      const { code, stdout, stderr } = await spearRun([fixture('c/mcp.wasm'), ...flags, '--', id, tool, '{}'], { env });
      expect(code).toBe(0);
      expect(stdout.match(/\[redacted\]/g)).toHaveLength(2);
      expectNoSecret({ stdout, stderr });
    }
  });

  it('tells of tools that run in the guest, without any MCP', async () => {
    const audit = auditFile();
    const flags = ['--script', fixture('scripts/sum.json'), '--audit', audit];
    const { code } = await spearRun([fixture('c/sum.wasm'), ...flags]);
    expect(code).toBe(0);
    expect(linesOf(audit).map((line) => [line.event, line.source, line.tool_name, line.status])).toEqual([
      ['guest.started', undefined, undefined, undefined],
      ['model_call.finished', undefined, undefined, 'ok'],
      ['tool_call.started', 'native', 'sum', undefined],
      ['tool_call.finished', 'native', 'sum', 'ok'],
      ['model_call.finished', undefined, undefined, 'ok'],
      ['guest.ended', undefined, undefined, 'exit'],
    ]);
  });

  it('tells how a guest ended that did not end well', async () => {
    const audit = auditFile();
    const ended = async (wasm: string, ...flags: string[]) => {
      await spearRun([fixture(wasm), '--audit', audit, ...flags]);
      const { status, exit_code } = linesOf(audit).at(-1) ?? {};
      return [status, exit_code];
    };
    expect(await ended('c/test/exit.wasm', '--', '7')).toEqual(['exit', 7]);
    expect(await ended('c/test/spin.wasm', '--limit', 'timeout_ms=300')).toEqual(['deadline', null]);
    expect(await ended('c/test/trap.wasm')).toEqual(['trap', null]);
    const runs = linesOf(audit).map(({ instance }) => instance);
    expect([runs.length, new Set(runs).size]).toEqual([6, 3]);
  });

  it('makes a file that only its owner can read', async () => {
    const audit = auditFile();
    await spearRun([fixture('c/hello.wasm'), '--audit', audit]);
    expect(statSync(audit).mode & 0o777).toBe(0o600);
  });

  it('refuses to run where it cannot be written, and exits with 125 [audit.failure]', async () => {
    const audit = join(scratch, 'no', 'such', 'folder');
    const { code, stdout, stderr } = await spearRun([fixture('c/hello.wasm'), '--audit', audit]);
    expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
    expect(stderr).toBe(`spear-run: --audit ${audit}: cannot be written (ENOENT)\n`);
  });

  it.runIf(process.platform === 'linux')('says so when the disk is full, and goes on [audit.failure]', async () => {
    const { code, stdout, stderr } = await spearRun([fixture('c/hello.wasm'), '--audit', '/dev/full']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'hello from C\n' });
    expect(stderr).toBe('spear-run: --audit /dev/full: audit events are lost, writing failed (ENOSPC)\n');
  });

  it('tells nothing of MCP where the task has it off', async () => {
    const audit = auditFile();
    const flags = [...taskWith({ 'mcp.enabled': false }), '--script', fixture('scripts/chat.json'), '--audit', audit];
    await spearRun([fixture('c/chat.wasm'), ...flags]);
    expect(linesOf(audit).map(({ event }) => event)).toEqual(['guest.started', 'model_call.finished', 'guest.ended']);
  });
});
