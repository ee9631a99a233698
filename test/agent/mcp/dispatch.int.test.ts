import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TRUNCATION_MARK } from '../../../src/agent/mcp/client/tool-result.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { eventually, stdioRecord, tempDir } from './client/pool-samples.ts';
import { callOf, inject, type McpHost, never, openHost, textOf } from './mcp-host.ts';

const but = (record: McpServerRecord, fields: Partial<McpServerRecord>): McpServerRecord =>
  Object.freeze({ ...record, ...fields });
const tiny = (fields: Partial<McpServerRecord> = {}) => but(stdioRecord('tiny', 'tiny.mjs'), fields);
const echo = encodedName('tiny', 'echo');

/** A server whose calls never end, and what it was told. */
function hanging(fields: Partial<McpServerRecord> = {}) {
  const trail = join(tempDir(), 'trail');
  const lines = () => {
    try {
      return readFileSync(trail, 'utf8').trim().split('\n');
    } catch {
      return [];
    }
  };
  const record = but(stdioRecord('hanging', 'mid-call.mjs', { env: { TRAIL: trail } }), fields);
  return { record, lines };
}

const finished = (host: McpHost) => host.told('tool_call.finished').map(({ status, reason }) => [status, reason]);

describe('a call of the model', () => {
  it('reaches the server under every name of the tool that was injected', async () => {
    const host = await openHost([tiny({ tool_namespace: 'little' })]);
    const tools = await inject(host.guest());
    for (const name of [echo, 'mcp.tiny.echo', 'little.echo']) {
      expect(tools.owns(name)).toBe(true);
      expect(await textOf(tools, name, { message: name })).toBe(name);
    }
  });

  it('leaves one event and two lines, with what it was and what became of it [audit.calls]', async () => {
    const host = await openHost([tiny()]);
    const tools = await inject(host.guest({}, 'run-7'), { session: 'chat-3' });
    const about = { id: 'call_x', name: echo, arguments: '{"message":"a secret"}' };
    const [answer = ''] = await tools.run([about], never);
    const bytes = Buffer.byteLength(answer);
    const seen = { session: 'chat-3', server: 'tiny', kind: 'tool', tool: 'echo' };
    const told = { session_id: 'chat-3', request_id: 'call_x', source: 'mcp', server_id: 'tiny', tool_name: 'echo' };
    expect(host.invocations).toEqual([
      { run: 'run-7', source: 'mcp', ...seen, callId: 'call_x', outcome: 'ok', durationMs: expect.any(Number), bytes },
    ]);
    expect(host.trail.slice(-2)).toEqual([
      {
        run: 'run-7',
        event: 'tool_call.started',
        ...told,
        args: { message: 'a secret' },
      },
      {
        run: 'run-7',
        event: 'tool_call.finished',
        ...told,
        status: 'ok',
        reason: null,
        duration_ms: expect.any(Number),
        output_bytes: bytes,
        revision: 1,
      },
    ]);
  });

  it.each([
    ['that break the schema', '{"message":1}'],
    ['that lack a property', '{}'],
    ['that are empty', ''],
    ['that are a list', '["message"]'],
    ['that are no JSON', '{"message":'],
    ['that are null', 'null'],
  ])('with arguments %s is answered with mcp_invalid_arguments [mcp.arguments]', async (_, args) => {
    const host = await openHost([tiny()]);
    const tools = await inject(host.guest());
    const { error, content } = await callOf(tools, echo, args);
    expect([error?.code, error?.retryable, content]).toEqual(['mcp_invalid_arguments', false, undefined]);
    expect(finished(host)).toEqual([['failed', 'mcp_invalid_arguments']]);
    expect(host.invocations.map(({ outcome }) => outcome)).toEqual(['mcp_invalid_arguments']);
  });

  it('may leave its arguments empty where the tool needs none [mcp.arguments]', async () => {
    const host = await openHost([tiny()]);
    const tools = await inject(host.guest());
    for (const args of ['', ' ', '{}']) {
      expect(await textOf(tools, encodedName('tiny', 'pid'), args)).toMatch(/^\d+$/);
    }
  });

  it('whose arguments are nested without end is answered [mcp.arguments]', async () => {
    const host = await openHost([tiny()]);
    const tools = await inject(host.guest());
    const deep = `{"message":"x","more":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    const { error, content } = await callOf(tools, echo, deep);
    expect(error?.code ?? content?.[0]?.text).toMatch(/^(x|mcp_invalid_arguments)$/);
    expect(await textOf(tools, echo, { message: 'still there' })).toBe('still there');
  });

  it('that the tool itself reports as failed is a failed call with its text', async () => {
    const host = await openHost([tiny()]);
    const tools = await inject(host.guest());
    expect(await callOf(tools, encodedName('tiny', 'fail'))).toEqual({
      content: [{ type: 'text', text: 'no such row' }],
      error: { code: 'mcp_tool_error', message: 'no such row', retryable: false },
    });
    expect(finished(host)).toEqual([['failed', 'mcp_tool_error']]);
  });

  it('keeps structured content', async () => {
    const host = await openHost([tiny()]);
    const answer = await callOf(await inject(host.guest()), encodedName('tiny', 'structured'));
    expect(answer).toEqual({ content: [], structuredContent: { answer: 42 } });
  });

  it('gets the smaller of the session’s and the record’s output cap, cut between characters [mcp.result-cap]', async () => {
    const budgets = { ...tiny().budgets, max_tool_output_bytes: 2_000 };
    const host = await openHost([but(stdioRecord('huge', 'huge.mjs'), { budgets })]);
    const guest = host.guest();
    const huge = encodedName('huge', 'huge');
    for (const [maxOutputBytes, cap] of [
      [65_536, 2_000],
      [1_001, 1_001],
    ] as const) {
      const tools = await inject(guest, { maxOutputBytes });
      const [json = ''] = await tools.run([{ id: 'call_1', name: huge, arguments: '{"bytes":100000}' }], never);
      expect(Buffer.byteLength(json)).toBeLessThanOrEqual(cap);
      const { error, content } = JSON.parse(json) as Awaited<ReturnType<typeof callOf>>;
      expect(error?.code).toBe('mcp_output_too_large');
      expect(content?.[0]?.text).toMatch(new RegExp(`^ä+${TRUNCATION_MARK.replace(/[[\]]/g, '\\$&')}$`));
    }
    expect(host.told('budget.hit').map(({ budget, server_id, tool_name }) => [budget, server_id, tool_name])).toEqual([
      ['max_tool_output_bytes', 'huge', 'huge'],
      ['max_tool_output_bytes', 'huge', 'huge'],
    ]);
  });

  it('is ended by the record’s deadline, at the server too [mcp.timeout]', async () => {
    const { record, lines } = hanging({ budgets: { ...tiny().budgets, tool_timeout_ms: 300 } });
    const host = await openHost([record]);
    const { error } = await callOf(await inject(host.guest()), encodedName('hanging', 'hang'));
    expect([error?.code, error?.retryable]).toEqual(['mcp_timeout', true]);
    await eventually(() => expect(lines().map((line) => line.split(' ')[0])).toEqual(['call', 'cancelled']));
    expect(finished(host)).toEqual([['failed', 'mcp_timeout']]);
    expect(host.told('budget.hit').map(({ budget }) => budget)).toEqual(['timeout']);
  });

  it('that finds no place in the line is answered with mcp_budget_exceeded at once', async () => {
    const { record, lines } = hanging({ budgets: { ...tiny().budgets, max_concurrency: 1 } });
    const host = await openHost([record], { limits: { maxQueuedCalls: 1 } });
    const tools = await inject(host.guest());
    const hang = encodedName('hanging', 'hang');
    const controller = new AbortController();
    const running = callOf(tools, hang, {}, controller.signal);
    await eventually(() => expect(lines()).toHaveLength(1));
    const waiting = callOf(tools, hang, {}, controller.signal);
    await eventually(() => expect(host.pool.stats().callsQueued).toBe(1));
    const { error } = await callOf(tools, hang);
    expect([error?.code, error?.retryable]).toEqual(['mcp_budget_exceeded', true]);
    expect(host.told('budget.hit')).toEqual([
      expect.objectContaining({ session_id: 'chat-1', server_id: 'hanging', tool_name: 'hang', budget: 'pool' }),
    ]);
    controller.abort();
    await Promise.all([running, waiting]);
    expect(lines().filter((line) => line.startsWith('call'))).toHaveLength(1);
  });

  it('is ended with its send, at the server too [mcp.send-cancel]', async () => {
    const { record, lines } = hanging();
    const host = await openHost([record]);
    const controller = new AbortController();
    const answer = callOf(await inject(host.guest()), encodedName('hanging', 'hang'), {}, controller.signal);
    await eventually(() => expect(lines()).toHaveLength(1));
    controller.abort(new DOMException('cancelled by the guest', 'AbortError'));
    expect((await answer).error?.code).toBe('mcp_cancelled');
    await eventually(() => expect(lines().map((line) => line.split(' ')[0])).toEqual(['call', 'cancelled']));
    expect(finished(host)).toEqual([['failed', 'mcp_cancelled']]);
  });

  it('finds a server that died between injection and call again', async () => {
    const host = await openHost([stdioRecord('mortal', 'mid-call.mjs')]);
    const tools = await inject(host.guest());
    const first = await textOf(tools, encodedName('mortal', 'pid'));
    expect((await callOf(tools, encodedName('mortal', 'die'))).error?.code).toBe('mcp_unavailable');
    expect(await textOf(tools, encodedName('mortal', 'pid'))).not.toBe(first);
  });
});

describe('policy at dispatch', () => {
  it.each<[string, (host: McpHost) => Promise<void>, string]>([
    ['the server is removed', (host) => host.remove('tiny'), 'unknown_server'],
    ['all its tools are denied', (host) => host.upsert(tiny({ allowed_tools: [] })), 'deny_all'],
    ['the tool is denied', (host) => host.upsert(tiny({ allowed_tools: ['pid'] })), 'denied_by_registry'],
  ])('refuses a call when, since injection, %s [mcp.dispatch.policy]', async (_, change, reason) => {
    const host = await openHost([tiny()]);
    const tools = await inject(host.guest());
    await change(host);
    const { error } = await callOf(tools, echo, { message: 'x' });
    expect([error?.code, error?.retryable]).toEqual(['mcp_policy_denied', false]);
    expect(finished(host)).toEqual([['denied', reason]]);
  });

  it('refuses calls of a guest that calls MCP itself in the same way [mcp.dispatch.policy]', async () => {
    const host = await openHost([tiny()]);
    const guest = host.guest({ toolDenylist: ['environment'] });
    const call = async (serverId: string, tool: string) => {
      const about = { serverId, tool, arguments: '{"message":"x"}', callId: 'call-1', session: 'mcp-1000' };
      const { error } = JSON.parse(await guest.call(about, never)) as Awaited<ReturnType<typeof callOf>>;
      return [error?.code, host.told('tool_call.finished').at(-1)?.reason];
    };
    expect(await call('tiny', 'echo')).toEqual([undefined, null]);
    expect(await call('tiny', 'environment')).toEqual(['mcp_policy_denied', 'denied_by_task']);
    expect(await call('other', 'echo')).toEqual(['mcp_policy_denied', 'not_allowed']);
    await host.upsert(tiny({ allowed_tools: ['pid'] }));
    expect(await call('tiny', 'echo')).toEqual(['mcp_policy_denied', 'denied_by_registry']);
    await host.remove('tiny');
    expect(await call('tiny', 'pid')).toEqual(['mcp_policy_denied', 'unknown_server']);
  });

  it.each(['removed', 'denied'])(
    'ends a call in flight whose server or tool is %s, at the server too [mcp.revoke]',
    async (how) => {
      const { record, lines } = hanging();
      const host = await openHost([record]);
      const answer = callOf(await inject(host.guest()), encodedName('hanging', 'hang'));
      await eventually(() => expect(lines()).toHaveLength(1));
      if (how === 'removed') await host.remove('hanging');
      else await host.upsert(but(record, { allowed_tools: ['pid'] }));
      const { error } = await answer;
      expect([error?.code, error?.retryable]).toEqual(['mcp_policy_denied', false]);
      expect(finished(host)).toEqual([['denied', how === 'removed' ? 'unknown_server' : 'denied_by_registry']]);
      await eventually(() => expect(lines().map((line) => line.split(' ')[0])).toEqual(['call', 'cancelled']));
    },
  );

  it('leaves a call in flight alone when the change does not concern it [mcp.revoke]', async () => {
    const { record, lines } = hanging({ allowed_tools: ['hang', 'pid'] });
    const host = await openHost([record, tiny()]);
    const controller = new AbortController();
    const tools = await inject(host.guest());
    const answer = callOf(tools, encodedName('hanging', 'hang'), {}, controller.signal);
    await eventually(() => expect(lines()).toHaveLength(1));
    await host.remove('tiny');
    await host.upsert(but(record, { allowed_tools: ['hang'] }));
    // A call behind it in the same connection is refused, and comes back.
    expect((await callOf(tools, encodedName('hanging', 'pid'))).error?.code).toBe('mcp_policy_denied');
    expect(lines()).toHaveLength(1);
    controller.abort();
    expect((await answer).error?.code).toBe('mcp_cancelled');
  });

  it('is asked after a wait in the queue, so a queued call never starts [mcp.dispatch.policy]', async () => {
    const { record, lines } = hanging({ budgets: { ...tiny().budgets, max_concurrency: 1 } });
    const host = await openHost([record]);
    const tools = await inject(host.guest());
    const controller = new AbortController();
    const first = callOf(tools, encodedName('hanging', 'hang'), {}, controller.signal);
    await eventually(() => expect(lines()).toHaveLength(1));
    const queued = callOf(tools, encodedName('hanging', 'pid'));
    await eventually(() => expect(host.pool.stats().callsQueued).toBe(1));
    await host.upsert(but(record, { approval_policy: { default: 'never', per_tool: { pid: 'always' } } }));
    controller.abort();
    await first;
    expect((await queued).error?.code).toBe('mcp_approval_denied');
  });

  it('stops to listen to the registry when the guest is closed [mcp.revoke]', async () => {
    const { record, lines } = hanging();
    const host = await openHost([record]);
    const guest = host.guest();
    const controller = new AbortController();
    const answer = callOf(await inject(guest), encodedName('hanging', 'hang'), {}, controller.signal);
    await eventually(() => expect(lines()).toHaveLength(1));
    guest.close();
    await host.upsert(but(record, { allowed_tools: ['pid'] }));
    controller.abort();
    expect((await answer).error?.code).toBe('mcp_cancelled');
  });
});

describe('approval', () => {
  it.each(['always', 'policy'] as const)('%s is denied: nobody can be asked', async (mode) => {
    const host = await openHost([tiny({ approval_policy: { default: 'never', per_tool: { echo: mode } } })]);
    const tools = await inject(host.guest());
    const { error } = await callOf(tools, echo, { message: 'x' });
    expect(error).toEqual({
      code: 'mcp_approval_denied',
      message: `echo needs an approval (approval_policy: ${mode}), and no approver is available`,
      retryable: false,
    });
    expect(finished(host)).toEqual([['denied', 'approval_required']]);
    expect(await textOf(tools, encodedName('tiny', 'pid'))).toMatch(/^\d+$/);
  });

  it('does not start a server for a call that it denies', async () => {
    const host = await openHost([tiny({ approval_policy: { default: 'always', per_tool: {} } })]);
    const guest = host.guest();
    const about = { serverId: 'tiny', tool: 'echo', arguments: '{}', callId: 'call-1', session: 'mcp-1000' };
    expect(await guest.call(about, never)).toContain('mcp_approval_denied');
    expect(host.pool.stats()).toMatchObject({ servers: 0, subprocesses: 0 });
  });
});
