import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ApprovalDecider } from '../../../src/agent/approvals/request.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import { type AuditLogOptions, openAuditLog } from '../../../src/server/audit/log.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { fixture, scratch, spearRun } from '../../e2e/spear-run.ts';
import { linesOf, newTrail } from '../../server/audit/audit-samples.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { never, openHost } from './mcp-host.ts';
import { recordDir, recordOf, taskWithMcp } from './mcp-run.ts';
import { notingServer } from './noting-server.ts';

/** A guest whose calls need their lines, and a server that notes what reaches it. */
async function openGuest(options: Partial<AuditLogOptions>, approve?: ApprovalDecider) {
  const posted = vi.spyOn(Worker.prototype, 'postMessage');
  onTestFinished(() => posted.mockRestore());
  const path = options.path ?? newTrail();
  const log = openAuditLog({ path, failureMode: 'refuse', ...options });
  const [writer] = posted.mock.contexts as Worker[];
  if (writer === undefined) throw new Error('the trail has no thread');
  onTestFinished(() => log.close());
  const server = notingServer('counting', 'counting.mjs');
  const approval: Partial<McpServerRecord> = approve ? { approval_policy: { default: 'always', per_tool: {} } } : {};
  const { pool, registry, events } = await openHost([{ ...server.record, ...approval }]);
  const task = taskWith({ defaultServerIds: ['counting'] });
  const audit = log.forTask('refuse');
  const guest = new GuestMcp({ pool, registry, events, audit }, 'run-1', task, approve ? { decide: approve } : {});
  const call = async (label: string) => {
    const about = { serverId: 'counting', tool: 'work', callId: label, session: 'mcp-3' };
    return JSON.parse(await guest.call({ ...about, arguments: JSON.stringify({ label, ms: 0 }) }, never));
  };
  return { path, log, writer, server, call };
}

const refused = {
  error: {
    code: 'mcp_policy_denied',
    message: expect.stringContaining('the audit log cannot be written'),
    retryable: false,
  },
};

describe('a node whose trail comes before its calls', () => {
  it('has the line of a call in the file when the server gets it [audit.refuse]', async () => {
    const { path, server, call } = await openGuest({});
    const answered = call('one');
    await server.until('one');
    expect(linesOf(path).map(({ event, request_id }) => [event, request_id])).toEqual([
      ['chain.started', undefined],
      ['tool_call.started', 'one'],
    ]);
    expect(await answered).not.toHaveProperty('error');
  });

  it.runIf(process.platform === 'linux')('sends nothing while the disk is full [audit.refuse]', async () => {
    const { server, call } = await openGuest({ path: '/dev/full' });
    expect(await call('one')).toMatchObject(refused);
    expect(await call('two')).toMatchObject(refused);
    expect(server.lines()).toEqual([]);
  });

  it('sends nothing once the thread that writes is gone [audit.refuse]', async () => {
    const { writer, server, call } = await openGuest({});
    expect(await call('one')).not.toHaveProperty('error');
    await writer.terminate();
    expect(await call('two')).toMatchObject(refused);
    expect(server.lines()).toEqual(['one']);
  });

  it.runIf(process.platform === 'linux')('takes no approval that cannot be written [audit.refuse]', async () => {
    const asked: string[] = [];
    const { server, call } = await openGuest({ path: '/dev/full' }, async ({ callId }) => {
      asked.push(callId);
      return { decision: 'allow_once' };
    });
    expect(await call('one')).toMatchObject(refused);
    expect([asked, server.lines()]).toEqual([['one'], []]);
  });

  it('otherwise waits for nothing [audit.failure]', async () => {
    const { server, call } = await openGuest({ path: '/dev/full', failureMode: 'continue' });
    expect(await call('one')).not.toHaveProperty('error');
    expect(server.lines()).toEqual(['one']);
  });
});

it.runIf(process.platform === 'linux')(
  '[audit] on_failure = "refuse" of the config is that mode [audit.refuse]',
  async () => {
    const config = join(scratch, 'refusing.toml');
    writeFileSync(config, '[audit]\nfile = "/dev/full"\non_failure = "refuse"\n');
    const mcp = [...taskWithMcp(['tiny']), '--mcp-dir', recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs') })];
    const flags = [...mcp, '--config', config, '--', 'tiny', 'echo', '{"message":"hi"}'];
    const { stdout } = await spearRun([fixture('c/test/mcp-call.wasm'), ...flags]);
    expect(stdout).toContain('the audit log cannot be written');
  },
);
