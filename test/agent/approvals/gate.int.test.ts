import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ApprovalGate, type ApprovalOptions, type GatedCall } from '../../../src/agent/approvals/gate.ts';
import { hashArguments } from '../../../src/agent/approvals/grants.ts';
import { MAX_PENDING_APPROVALS } from '../../../src/agent/approvals/pending.ts';
import { type ApprovalDecider, type ApprovalDecision, isOutdated } from '../../../src/agent/approvals/request.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { hashDefinition } from '../../../src/agent/policy/definition-hash.ts';
import { StaticRegistry } from '../../../src/registry-client/cache.ts';
import { initialSession } from '../../../src/runtime/port/policy-layers.ts';
import { type AuditEvent, noAudit } from '../../../src/server/audit/event.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { inEnoughTime } from '../../support/enough-time.ts';
import { eraHas } from '../../support/server-era.ts';
import { eventually, npmServer, stdioRecord, tempDir } from '../mcp/client/pool-samples.ts';
import { callOf, inject, never, openHost } from '../mcp/mcp-host.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { asking, but, callTool, Desk, guestOf, outcome, rulesOf } from './approval-host.ts';

const tiny = stdioRecord('tiny', 'tiny.mjs');
const hi = { message: 'hi' };

/** The npm file system server on a folder of this test's own. */
function files() {
  const folder = tempDir();
  return { folder, record: stdioRecord('fs', npmServer('filesystem'), { args: [folder] }) };
}

describe('a tool with approval_policy always', () => {
  if (eraHas('publishedServers'))
    it('is called when a real server’s write is allowed once, and only then [approval.always]', async () => {
      const { folder, record } = files();
      const host = await openHost([asking(record, 'always', 'write_file')]);
      const desk = new Desk();
      const guest = guestOf(host, { decide: desk.decide, task: 'notes' });
      const path = join(folder, 'note.txt');
      const args = { path, content: 'a line' };
      const answer = callTool(guest, 'fs', 'write_file', args, { session: 'mcp-7' });
      const request = await desk.next();
      expect(existsSync(path)).toBe(false);
      expect(request).toMatchObject({
        task: 'notes',
        run: 'run-1',
        session: 'mcp-7',
        server: 'fs',
        tool: 'write_file',
        arguments: args,
        cause: { code: 'always', text: expect.stringContaining('approval_policy: always') },
        definition: { name: 'write_file', inputSchema: { type: 'object' } },
        changes: [],
      });
      expect(request.definition.annotations).toMatchObject({ destructiveHint: true });
      expect(request.deadlineMs).toBeGreaterThan(Date.now());
      desk.answer('allow_once');
      expect(outcome(await answer)).toBe('ok');
      expect(readFileSync(path, 'utf8')).toBe('a line');
      const second = callTool(guest, 'fs', 'write_file', args, { session: 'mcp-7' });
      await desk.next();
      desk.answer({ decision: 'deny', reason: 'once is enough' });
      expect((await second).error).toEqual({
        code: 'mcp_approval_denied',
        message: 'write_file was not approved: once is enough',
        retryable: false,
      });
      // What needs no approval is not asked about.
      expect(outcome(await callTool(guest, 'fs', 'read_text_file', { path }))).toBe('ok');
      expect(desk.asked).toHaveLength(2);
    });

  it('is called without asking again once allowed for the session', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk('allow_session');
    const guest = guestOf(host, { decide: desk.decide });
    for (const message of ['a', 'b', 'c']) {
      expect(outcome(await callTool(guest, 'tiny', 'echo', { message }))).toBe('ok');
    }
    expect(desk.asked).toHaveLength(1);
    expect(outcome(await callTool(guest, 'tiny', 'pid'))).toBe('ok');
    expect(outcome(await callTool(guest, 'tiny', 'echo', hi, { session: 'mcp-2' }))).toBe('ok');
    expect(desk.asked.map(({ tool, session }) => [tool, session])).toEqual([
      ['echo', 'mcp-1000'],
      ['pid', 'mcp-1000'],
      ['echo', 'mcp-2'],
    ]);
  });

  it('answers the other waiting calls too when it is allowed for the session', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk();
    const guest = guestOf(host, { decide: desk.decide });
    const answers = ['a', 'b', 'c'].map((message) => callTool(guest, 'tiny', 'echo', { message }));
    const other = callTool(guest, 'tiny', 'pid');
    for (const _ of [1, 2, 3, 4]) await desk.next();
    desk.answer('allow_session');
    expect((await Promise.all(answers)).map(outcome)).toEqual(['ok', 'ok', 'ok']);
    const withdrawn = desk.asked.filter(({ signal }) => signal.aborted);
    expect(withdrawn.map(({ tool, signal }) => [tool, signal.reason.message])).toEqual([
      ['echo', 'allowed for this session by another decision'],
      ['echo', 'allowed for this session by another decision'],
    ]);
    desk.answer('deny');
    desk.answer('deny');
    desk.answer('deny');
    expect(outcome(await other)).toBe('mcp_approval_denied');
  });

  it('is asked about in the model’s way too, and the model goes on [approval.always]', async () => {
    const host = await openHost([asking(tiny, 'always', 'echo')]);
    const desk = new Desk('deny');
    const tools = await inject(guestOf(host, { decide: desk.decide }));
    const { error } = await callOf(tools, encodedName('tiny', 'echo'), hi);
    expect([error?.code, error?.message]).toEqual(['mcp_approval_denied', 'echo was not approved']);
    expect((await callOf(tools, encodedName('tiny', 'pid'))).error).toBeUndefined();
    expect(host.told('tool_call.finished').map(({ status, reason }) => [status, reason])).toEqual([
      ['denied', 'approval_denied'],
      ['ok', null],
    ]);
  });

  it('is not asked about for arguments that it would not take [approval.always]', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk('allow_once');
    const guest = guestOf(host, { decide: desk.decide });
    expect(outcome(await callTool(guest, 'tiny', 'echo', { message: 1 }))).toBe('mcp_invalid_arguments');
    expect(outcome(await callTool(guest, 'tiny', 'missing'))).toBe('mcp_invalid_arguments');
    expect(desk.asked).toEqual([]);
  });

  it.each<[string, ApprovalDecider]>([
    ['throws', () => Promise.reject(new TypeError('with a secret in it'))],
    [
      'throws at once',
      () => {
        throw new TypeError('with a secret in it');
      },
    ],
    ['answers nothing', () => undefined as never],
    ['answers another word', () => 'yes' as never],
    ['answers an object without a decision', () => ({ allow: true }) as never],
  ])('is denied when the decider %s', async (_, decide) => {
    const host = await openHost([asking(tiny)]);
    const { error } = await callTool(guestOf(host, { decide }), 'tiny', 'echo', hi);
    expect([error?.code, error?.message]).toEqual([
      'mcp_approval_denied',
      expect.stringMatching(
        /^echo was not approved: the approval handler (failed \(TypeError\)|returned an unknown answer)$/,
      ),
    ]);
  });

  it('sends the arguments that were asked about, whatever the decider does with its copy', async () => {
    const host = await openHost([asking(tiny)]);
    const guest = guestOf(host, {
      decide: ({ arguments: args }) => {
        args.message = 'changed';
        return 'allow_once';
      },
    });
    expect((await callTool(guest, 'tiny', 'echo', hi)).content).toEqual([{ type: 'text', text: 'hi' }]);
  });
});

describe('while a call waits for its approval', () => {
  it('it holds no place: others at a server with one place go on', async () => {
    const record = but(asking(tiny, 'always', 'echo'), { budgets: { ...tiny.budgets, max_concurrency: 1 } });
    const host = await openHost([record], { limits: { maxCallsInFlight: 1 } });
    const desk = new Desk();
    const guest = guestOf(host, { decide: desk.decide });
    const waiting = callTool(guest, 'tiny', 'echo', hi);
    await desk.next();
    expect(outcome(await callTool(guest, 'tiny', 'pid'))).toBe('ok');
    expect(host.pool.stats()).toMatchObject({ callsInFlight: 0, callsQueued: 0 });
    desk.answer('allow_once');
    expect(outcome(await waiting)).toBe('ok');
  });

  it('the tool’s time does not run', async () => {
    await inEnoughTime(100, async (toolMs) => {
      const record = but(asking(tiny), { budgets: { ...tiny.budgets, tool_timeout_ms: toolMs } });
      const host = await openHost([record]);
      const desk = new Desk();
      const answer = callTool(guestOf(host, { decide: desk.decide }), 'tiny', 'echo', hi);
      await desk.next();
      // Another call's question, asked later, runs out of a time that is longer than the tool's.
      const impatient = guestOf(host, { decide: desk.decide, timeoutMs: 3 * toolMs }, { run: 'run-2' });
      expect(outcome(await callTool(impatient, 'tiny', 'echo', hi))).toBe('mcp_approval_denied');
      desk.answer('allow_once');
      expect(outcome(await answer)).toBe('ok');
    });
  });

  it('no answer in time denies it, and tells whoever was asked [approval.timeout]', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk();
    const { error } = await callTool(guestOf(host, { decide: desk.decide, timeoutMs: 50 }), 'tiny', 'echo', hi);
    expect(error).toEqual({
      code: 'mcp_approval_denied',
      message: 'echo: no approval within 50 ms (approval_timeout_ms)',
      retryable: false,
    });
    expect(desk.asked[0]?.signal.reason).toMatchObject({ message: 'no decision within 50 ms; denied' });
    expect(host.told('tool_call.finished').map(({ reason }) => reason)).toEqual(['approval_timeout']);
    expect(host.told('approval.decided').map(({ decision, decided_by }) => [decision, decided_by])).toEqual([
      ['timeout', 'nobody'],
    ]);
  });

  it('the end of its send ends it', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk();
    const send = new AbortController();
    const answer = callTool(guestOf(host, { decide: desk.decide }), 'tiny', 'echo', hi, { signal: send.signal });
    const { signal } = await desk.next();
    send.abort(new DOMException('over 10 ms', 'TimeoutError'));
    expect(outcome(await answer)).toBe('mcp_cancelled');
    expect(signal.reason.message).toContain('no longer needed');
    expect(host.told('approval.decided').map(({ decision, status }) => [decision, status])).toEqual([
      ['cancelled', 'denied'],
    ]);
  });

  it('the end of the guest ends it', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk();
    const guest = guestOf(host, { decide: desk.decide });
    const answer = callTool(guest, 'tiny', 'echo', hi);
    const { signal } = await desk.next();
    guest.close();
    expect(outcome(await answer)).toBe('mcp_cancelled');
    expect(signal.aborted).toBe(true);
    // An answer that comes too late changes nothing.
    desk.answer('allow_session');
    expect(outcome(await callTool(guest, 'tiny', 'echo', hi))).toBe('mcp_approval_denied');
  });

  it('a revocation ends it, with the revision that did it', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk();
    const answer = callTool(guestOf(host, { decide: desk.decide }), 'tiny', 'echo', hi);
    const { signal } = await desk.next();
    await host.upsert(but(asking(tiny), { allowed_tools: ['pid'] }));
    const revision = host.registry.snapshot()?.revision;
    await host.upsert(but(asking(tiny), { allowed_tools: [] }));
    expect(outcome(await answer)).toBe('mcp_policy_denied');
    expect(signal.aborted).toBe(true);
    expect(host.told('tool_call.finished')).toMatchObject([
      { status: 'denied', reason: 'denied_by_registry', revision },
    ]);
  });

  it('only so many wait', async () => {
    const host = await openHost([asking(tiny)]);
    const desk = new Desk();
    const guest = guestOf(host, { decide: desk.decide });
    const waiting = Array.from({ length: MAX_PENDING_APPROVALS }, () => callTool(guest, 'tiny', 'echo', hi));
    await eventually(() => expect(desk.asked).toHaveLength(MAX_PENDING_APPROVALS));
    const { error } = await callTool(guest, 'tiny', 'echo', hi);
    expect([error?.code, error?.message]).toEqual([
      'mcp_approval_denied',
      'echo: too many calls are waiting for an approval',
    ]);
    desk.answer('allow_session');
    expect(new Set((await Promise.all(waiting)).map(outcome))).toEqual(new Set(['ok']));
  });
});

describe('what was allowed is looked at again when the call is sent', () => {
  const redefining = (fields: object = {}) => {
    const trail = join(tempDir(), 'trail');
    const record = asking(stdioRecord('post', 'redefining.mjs', { env: { TRAIL: trail } }), 'always', 'send');
    const sent = () => (existsSync(trail) ? readFileSync(trail, 'utf8').trim().split('\n') : []);
    return { record: but(record, fields), sent };
  };
  const to = { to: 'ann' };

  it('a definition that changed while it waited is asked about again, with the difference [approval.changed]', async () => {
    const { record, sent } = redefining();
    const host = await openHost([record]);
    const desk = new Desk();
    const guest = guestOf(host, { decide: desk.decide });
    const answer = callTool(guest, 'post', 'send', to);
    await desk.next();
    const change = { description: 'sends money', annotations: { readOnlyHint: false } };
    expect(outcome(await callTool(guest, 'post', 'redefine', change))).toBe('ok');
    desk.answer('allow_once');
    const again = await desk.next();
    expect(sent()).toEqual([]);
    expect(again.changes).toEqual([
      { path: 'description', before: 'sends a message', after: 'sends money' },
      { path: 'annotations.readOnlyHint', before: true, after: false },
    ]);
    desk.answer('allow_once');
    expect(outcome(await answer)).toBe('ok');
    expect(sent()).toEqual(['send ann']);
  });

  it('a session’s grant ends with the definition, and the difference is shown [approval.changed]', async () => {
    const { record, sent } = redefining();
    const host = await openHost([record]);
    const desk = new Desk('allow_session');
    const guest = guestOf(host, { decide: desk.decide });
    const properties = { to: { type: 'string' }, bcc: { type: 'string' } };
    const changes = [{}, {}, { inputSchema: { type: 'object', properties, required: ['to'] } }, {}];
    for (const change of changes) {
      await callTool(guest, 'post', 'redefine', change);
      expect(outcome(await callTool(guest, 'post', 'send', to))).toBe('ok');
    }
    expect(sent()).toHaveLength(4);
    expect(desk.asked.map((request) => request.changes)).toEqual([
      [],
      [{ path: 'inputSchema.properties.bcc', before: undefined, after: { type: 'string' } }],
    ]);
  });

  it('a record that changed while it waited is asked about again', async () => {
    const { record, sent } = redefining();
    const host = await openHost([record]);
    const desk = new Desk();
    const guest = guestOf(host, { decide: desk.decide });
    const answer = callTool(guest, 'post', 'send', to);
    await desk.next();
    await host.upsert(but(record, { display_name: 'another name' }));
    desk.answer('allow_once');
    await desk.next();
    expect(sent()).toEqual([]);
    desk.answer('deny');
    expect(outcome(await answer)).toBe('mcp_approval_denied');
    expect(sent()).toEqual([]);
  });

  it('a tool that came to need an approval in the queue is asked about then, outside of it', async () => {
    const trail = join(tempDir(), 'trail');
    const hanging = stdioRecord('hanging', 'mid-call.mjs', { env: { TRAIL: trail }, budgets: { max_concurrency: 1 } });
    const host = await openHost([hanging]);
    const desk = new Desk();
    const guest = guestOf(host, { decide: desk.decide });
    const first = new AbortController();
    const running = callTool(guest, 'hanging', 'hang', {}, { signal: first.signal });
    await eventually(() => expect(existsSync(trail)).toBe(true));
    const queued = callTool(guest, 'hanging', 'pid');
    await eventually(() => expect(host.pool.stats().callsQueued).toBe(1));
    await host.upsert(asking(hanging, 'always', 'pid'));
    expect(desk.asked).toEqual([]);
    first.abort();
    expect(outcome(await running)).toBe('mcp_cancelled');
    expect(await desk.next()).toMatchObject({ tool: 'pid', cause: { code: 'always' } });
    expect(host.pool.stats()).toMatchObject({ callsInFlight: 0, callsQueued: 0 });
    desk.answer('allow_once');
    expect(outcome(await queued)).toBe('ok');
  });

  it('one that is something else every time is given up', async () => {
    const { record, sent } = redefining();
    const host = await openHost([record]);
    let version = 0;
    const guest = guestOf(host, {
      decide: async (): Promise<ApprovalDecision> => {
        await callTool(guest, 'post', 'redefine', { description: `version ${++version}` });
        return 'allow_once';
      },
    });
    const { error } = await callTool(guest, 'post', 'send', to);
    expect([error?.code, error?.message]).toEqual([
      'mcp_approval_denied',
      'send: the approval does not match the call as it would be made now',
    ]);
    expect(host.told('tool_call.finished').at(-1)?.reason).toBe('approval_outdated');
    expect(sent()).toEqual([]);
  });
});

describe('a grant for one call, at the moment the call is sent', () => {
  const record = asking(sampleRecord('fs'));
  const definition = {
    name: 'write',
    description: 'writes',
    inputSchema: { type: 'object' },
    outputSchema: null,
    annotations: null,
  };
  const task = taskWith({ defaultServerIds: ['fs', 'fs2'] });
  const call: GatedCall = { serverId: 'fs', tool: 'write', callId: 'call-1', session: 'chat-1', sessionPolicy: null };
  const args = { path: '/a', mode: 1 };

  async function granted(options: ApprovalOptions = {}) {
    const events: AuditEvent[] = [];
    const gate = new ApprovalGate(
      { decide: () => 'allow_once', ...options },
      {
        run: 'run-1',
        task,
        registry: {
          snapshot: () => ({ ...new StaticRegistry([record]).snapshot(), revision: 7 }),
          view: () => new StaticRegistry([record]).view(),
        },
        audit: { write: (_, event) => void events.push(event), showArguments: () => null },
        pool: {
          describeCall: async (_, { args }) => ({ tool: { ...definition, title: null, outputSchema: null }, args }),
        },
      },
    );
    const grant = await gate.obtain(record, call, args, never);
    const redeem = (change: Partial<{ record: typeof record; call: object; args: object; definition: object }>) => {
      const now = { record, definition, args, ...change, call: { ...call, ...change.call } };
      try {
        gate.redeem(now.record, now.call, now.args as typeof args, now.definition as typeof definition, grant);
        return 'sent';
      } catch (error) {
        return isOutdated(error) ? 'asked again' : error;
      }
    };
    return { redeem, events };
  }

  it('holds for the same call in another order of keys, once', async () => {
    const { redeem } = await granted();
    expect(redeem({ args: { mode: 1, path: '/a' } })).toBe('sent');
    expect(redeem({})).toBe('asked again');
  });

  it.each<[string, Parameters<Awaited<ReturnType<typeof granted>>['redeem']>[0]]>([
    ['the session', { call: { session: 'chat-2' } }],
    ['the server', { call: { serverId: 'fs2' } }],
    ['the tool', { call: { tool: 'erase' } }],
    ['an argument', { args: { ...args, path: '/b' } }],
    ['one more argument', { args: { ...args, force: true } }],
    ['the type of an argument', { args: { ...args, mode: '1' } }],
    ['the tool’s name', { definition: { ...definition, name: 'Write' } }],
    ['the tool’s description', { definition: { ...definition, description: 'erases' } }],
    ['the tool’s schema', { definition: { ...definition, inputSchema: { type: 'object', properties: {} } } }],
    ['the tool’s output schema', { definition: { ...definition, outputSchema: { type: 'object' } } }],
    ['the tool’s annotations', { definition: { ...definition, annotations: {} } }],
    ['the record’s revision', { record: but(record, { mod_revision: 9 }) }],
    ['the record’s tools', { record: but(record, { allowed_tools: ['w*'] }) }],
    [
      'the record’s command',
      { record: but(record, { stdio: { ...sampleRecord('x').stdio, command: 'evil' } as never }) },
    ],
    ['the record’s approval policy', { record: but(record, { approval_policy: { default: 'policy', per_tool: {} } }) }],
    ['the session’s tools', { call: { sessionPolicy: { ...initialSession(task), toolDenylist: ['x'] } } }],
  ])('does not when %s is another [approval.grant.bound]', async (_, change) => {
    const { redeem } = await granted();
    expect(redeem(change)).toBe('asked again');
  });

  it('is of no use in another run or task [approval.grant.bound]', async () => {
    const audited = async (options: ApprovalOptions) => (await granted(options)).redeem({});
    expect(await audited({ task: 'a' })).toBe('sent');
    const host = await openHost([asking(tiny)]);
    const desk = new Desk('allow_session');
    for (const [run, task] of [
      ['run-1', 'a'],
      ['run-1', 'b'],
      ['run-2', 'a'],
    ] as const) {
      await callTool(guestOf(host, { decide: desk.decide, task }, { run }), 'tiny', 'echo', hi);
    }
    expect(desk.asked.map((request) => [request.run, request.task])).toEqual([
      ['run-1', 'a'],
      ['run-1', 'b'],
      ['run-2', 'a'],
    ]);
  });

  it('is in the trail with what it is bound to', async () => {
    const { events } = await granted({ decidedBy: 'somebody' });
    const bound = {
      session_id: 'chat-1',
      request_id: 'call-1',
      server_id: 'fs',
      tool_name: 'write',
      revision: 7,
      args_sha256: hashArguments(args),
      tool_sha256: hashDefinition(definition),
    };
    expect(events).toEqual([
      { event: 'approval.asked', ...bound, reason: expect.stringContaining('always'), args: null },
      {
        event: 'approval.decided',
        ...bound,
        status: 'allowed',
        decision: 'allow_once',
        decided_by: 'somebody',
        reason: null,
        duration_ms: expect.any(Number),
      },
    ]);
    expect(bound.args_sha256).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe('a tool with approval_policy policy', () => {
  const reads = { name: 'reads', servers: ['fs'], annotations: { readOnlyHint: true }, verdict: 'allow' };

  if (eraHas('publishedServers'))
    it('is decided by rules about a real server’s own words, arguments and names [approval.policy]', async () => {
      const { folder, record } = files();
      const host = await openHost([asking(record, 'policy')]);
      const desk = new Desk('allow_once');
      const rules = rulesOf({
        node: [{ name: 'no dotfiles', arguments: [{ path: '/path', pattern: '*/.*' }], verdict: 'deny' }],
        task: [
          reads,
          {
            name: 'drafts',
            tools: ['write_file'],
            arguments: [{ path: '/path', inside: join(folder, 'drafts') }],
            verdict: 'allow',
          },
        ],
      });
      const guest = guestOf(host, { decide: desk.decide, rules });
      const write = (path: string) => callTool(guest, 'fs', 'write_file', { path: join(folder, path), content: 'x' });
      expect(outcome(await callTool(guest, 'fs', 'create_directory', { path: join(folder, 'drafts') }))).toBe('ok');
      expect(desk.asked.map(({ tool, cause }) => [tool, cause.code])).toEqual([['create_directory', 'no_rule']]);
      expect(outcome(await write('drafts/a.txt'))).toBe('ok');
      expect(outcome(await callTool(guest, 'fs', 'list_directory', { path: folder }))).toBe('ok');
      expect(desk.asked).toHaveLength(1);
      expect(outcome(await write('drafts/../b.txt'))).toBe('ok');
      expect(desk.asked).toHaveLength(2);
      const denied = await write('drafts/.profile');
      expect(denied.error).toMatchObject({
        code: 'mcp_approval_denied',
        message: 'write_file is denied by "no dotfiles" of the node\'s approval rules',
      });
      expect(existsSync(join(folder, 'drafts/.profile'))).toBe(false);
      expect(host.told('tool_call.finished').at(-1)?.reason).toBe('denied_by_rule');
      expect(
        host.told('approval.decided').map(({ decision, status, decided_by }) => [decision, status, decided_by]),
      ).toEqual([
        ['allow_once', 'allowed', 'program'],
        ['rule', 'allowed', '"drafts" of the task\'s approval rules'],
        ['rule', 'allowed', '"reads" of the task\'s approval rules'],
        ['allow_once', 'allowed', 'program'],
        ['rule', 'denied', '"no dotfiles" of the node\'s approval rules'],
      ]);
    });

  it('needs nobody for what a rule allows, and is denied at once where one would be asked [approval.no-approver]', async () => {
    const host = await openHost([asking(tiny, 'policy')]);
    const guest = guestOf(host, { rules: rulesOf({ task: [{ tools: ['pid'], verdict: 'allow' }] }) });
    expect(outcome(await callTool(guest, 'tiny', 'pid'))).toBe('ok');
    const { error } = await callTool(guest, 'tiny', 'echo', hi);
    expect([error?.code, error?.message]).toEqual([
      'mcp_approval_denied',
      'echo needs an approval (approval_policy: policy), and no approver is available',
    ]);
  });

  it('is asked about where the node asks, whatever the task allows [approval.rules.layers]', async () => {
    const host = await openHost([asking(tiny, 'policy')]);
    const desk = new Desk('deny');
    const rules = rulesOf({ node: [{ name: 'ask me', verdict: 'ask' }], task: [{ verdict: 'allow' }] });
    expect(outcome(await callTool(guestOf(host, { decide: desk.decide, rules }), 'tiny', 'pid'))).toBe(
      'mcp_approval_denied',
    );
    expect(desk.asked[0]?.cause).toEqual({
      code: 'rule',
      text: '"ask me" of the node\'s approval rules requires an approval',
    });
  });

  it.each(['always', 'never'] as const)('is not needed for a rule to deny: %s [approval.rules.never]', async (mode) => {
    const host = await openHost([but(tiny, { approval_policy: { default: mode, per_tool: {} } })]);
    const desk = new Desk('allow_once');
    const rules = rulesOf({
      node: [{ arguments: [{ path: '/message', equals: 'bad' }], verdict: 'deny' }],
      task: [{ verdict: 'allow' }],
    });
    const guest = guestOf(host, { decide: desk.decide, rules });
    expect(outcome(await callTool(guest, 'tiny', 'echo', { message: 'bad' }))).toBe('mcp_approval_denied');
    expect(desk.asked).toHaveLength(0);
    expect(outcome(await callTool(guest, 'tiny', 'echo', hi))).toBe('ok');
    // Where every call is asked about, a rule that allows it changes nothing.
    expect(desk.asked).toHaveLength(mode === 'always' ? 1 : 0);
  });

  it('is no concern of a gate where nothing asks and nothing denies', () => {
    const pool = { describeCall: () => Promise.reject(new Error('asked')) };
    const scope = { run: 'r', task: taskWith(), registry: new StaticRegistry([]), audit: noAudit, pool };
    const gate = (rules: object[]) => new ApprovalGate({ rules: rulesOf({ node: rules }) }, scope);
    const call = { serverId: 'tiny', tool: 'echo', callId: 'c', session: 's', sessionPolicy: null };
    expect(gate([]).concerns(tiny, call)).toBe(false);
    expect(gate([{ verdict: 'allow' }, { verdict: 'ask' }]).concerns(tiny, call)).toBe(false);
    expect(gate([{ verdict: 'deny' }]).concerns(tiny, call)).toBe(true);
    expect(gate([]).concerns(asking(tiny, 'policy'), call)).toBe(true);
  });
});
