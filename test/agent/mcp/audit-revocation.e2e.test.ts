import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { Cli, fixture, scratch } from '../../e2e/spear-run.ts';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { auditLines } from '../../server/audit/audit-schema.ts';
import { sandboxOf, fixture as server, stdioRecord } from './client/pool-records.ts';
import { eventually } from './client/pool-samples.ts';
import { callOf, inject, openHost } from './mcp-host.ts';
import { taskWithMcp } from './mcp-run.ts';

afterEach(stopAll);

const revisions = (host: Awaited<ReturnType<typeof openHost>>) =>
  host.told('tool_call.finished').map(({ status, reason, revision }) => [status, reason, revision]);

describe('the revision that decided', () => {
  const tiny = stdioRecord('tiny', 'tiny.mjs');

  it('is with every call, let through or refused', async () => {
    const host = await openHost([tiny]);
    const tools = await inject(host.guest());
    const echo = encodedName('tiny', 'echo');
    await callOf(tools, echo, { message: 'x' });
    await host.upsert({ ...tiny, tags: ['new'] });
    await callOf(tools, echo, { message: 'x' });
    await host.upsert({ ...tiny, allowed_tools: ['pid'] });
    await callOf(tools, echo, { message: 'x' });
    await callOf(tools, 'mcp.nowhere.tool');
    expect(revisions(host)).toEqual([
      ['ok', null, 1],
      ['ok', null, 2],
      ['denied', 'denied_by_registry', 3],
      ['denied', 'not_injected', 3],
    ]);
  });

  it('is none for a tool inside the guest: no registry was asked', async () => {
    const audit = join(scratch, 'native.jsonl');
    const cli = new Cli([fixture('c/sum.wasm'), '--script', fixture('scripts/sum.json'), '--audit', audit]).listen();
    expect((await cli.finished()).code).toBe(0);
    const finished = auditLines(readFileSync(audit, 'utf8')).filter(({ event }) => event === 'tool_call.finished');
    expect(finished.map(({ revision }) => revision)).toEqual(finished.map(() => null));
    expect(finished.length).toBeGreaterThan(0);
  });
});

describe('a revocation in a registry', () => {
  it('cancels the call in flight; the trail has the change, then the call, both with its revision', async () => {
    const sms = await startTestSms();
    const [audit, noted] = [join(scratch, 'revoked.jsonl'), join(scratch, 'noted')];
    const slow = {
      server_id: 'slow',
      transport: 'stdio',
      stdio: { command: process.execPath, args: [server('counting.mjs')], env: { TRAIL: noted } },
      sandbox: { ...sandboxOf(), writable_paths: [scratch] },
      allowed_tools: ['*'],
      budgets: { tool_timeout_ms: 60_000 },
    };
    const created = await sms.http('POST', '/admin/api/mcp/servers', { json: slow });
    expect(created.status, created.text).toBe(201);
    const registry = ['--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, '--audit', audit];
    const call = ['slow', 'work', '{"label":"long","ms":50000}'];
    const guest = fixture('c/test/mcp-call.wasm');
    const cli = new Cli([guest, ...taskWithMcp(['slow']), ...registry, '--', ...call]).listen();
    await eventually(() => expect(readFileSync(noted, 'utf8')).toBe('long\n'), 20_000);
    const removed = await sms.http('DELETE', '/admin/api/mcp/servers/slow');
    const { stdout } = await cli.finished();
    expect(stdout).toContain('mcp_policy_denied');
    const [before, after] = [Number(created.body.mod_revision), Number(removed.body.revision)];
    expect(after).toBeGreaterThan(before);
    const lines = auditLines(readFileSync(audit, 'utf8'));
    const told = lines.filter(({ event }) => event === 'registry.applied' || event === 'tool_call.finished');
    expect(told).toMatchObject([
      { event: 'registry.applied', revision: before, upserted: ['slow'], upserts: 1, deletes: 0 },
      { event: 'registry.applied', revision: after, upserted: [], deleted: ['slow'], upserts: 0, deletes: 1 },
      { event: 'tool_call.finished', status: 'denied', reason: 'unknown_server', revision: after, tool_name: 'work' },
    ]);
  }, 60_000);
});
