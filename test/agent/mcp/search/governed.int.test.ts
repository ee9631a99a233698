import { describe, expect, it } from 'vitest';
import type { ApprovalRequest } from '../../../../src/agent/approvals/request.ts';
import type { InjectedTools } from '../../../../src/agent/chat/injected-tools.ts';
import { GuestMcp } from '../../../../src/agent/mcp/guest-mcp.ts';
import { CALL_TOOL, SEARCH_TOOL } from '../../../../src/agent/mcp/search/tool-search.ts';
import { encodedName } from '../../../../src/agent/mcp/tool-names.ts';
import { parseTaskPolicy } from '../../../../src/agent/policy/task-policy.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import { taskWith } from '../../policy/policy-samples.ts';
import { stdioRecord } from '../client/pool-samples.ts';
import { inject, namesOf, never, openHost } from '../mcp-host.ts';

const on = { toolSearch: { mode: 'on', above: 40 } } as const;
const tiny = (id: string, more = {}) => Object.freeze({ ...stdioRecord(id, 'tiny.mjs'), ...more });

async function ask(tools: InjectedTools, name: string, args: unknown): Promise<JsonObject> {
  const text = typeof args === 'string' ? args : JSON.stringify(args);
  const [json = ''] = await tools.run([{ id: 'call_1', name, arguments: text }], never);
  return JSON.parse(json) as JsonObject;
}

const found = async (tools: InjectedTools, query: string) =>
  ((await ask(tools, SEARCH_TOOL, { query, limit: 10 })).tools as JsonObject[]).map(({ name }) => name);

describe('tool search', () => {
  it('gives the model a search and a call instead of all definitions [mcp.search]', async () => {
    const host = await openHost([tiny('a'), tiny('b')]);
    const tools = await inject(host.guest(on));
    expect(namesOf(tools)).toEqual([SEARCH_TOOL, CALL_TOOL]);
    const answer = await ask(tools, SEARCH_TOOL, { query: 'echo', limit: 1 });
    const [first] = answer.tools as JsonObject[];
    expect(first).toMatchObject({ name: encodedName('a', 'echo'), server: 'a', parameters: { type: 'object' } });
    expect(answer.total).toBe(10);
    const said = await ask(tools, CALL_TOOL, { name: first?.name, arguments: { message: 'hi' } });
    expect(JSON.stringify(said)).toContain('hi');
  });

  it('is automatic beyond so many tools, and off unless the task says so [mcp.search]', async () => {
    const host = await openHost([tiny('a')]);
    const shown = async (mode: 'auto' | 'off', above: number) =>
      (await inject(host.guest({ toolSearch: { mode, above } }))).definitions.length;
    expect([await shown('auto', 4), await shown('auto', 5), await shown('off', 0)]).toEqual([2, 5, 5]);
    const policy = (config: JsonObject) => {
      const parsed = parseTaskPolicy({ 'mcp.enabled': true, ...config });
      return parsed.ok ? parsed.policy.toolSearch : parsed.issues[0]?.message;
    };
    expect(policy({})).toEqual({ mode: 'off', above: 40 });
    expect(policy({ 'mcp.tool_search': 'auto', 'mcp.tool_search_above': '12' })).toEqual({ mode: 'auto', above: 12 });
    expect(policy({ 'mcp.tool_search': 'yes' })).toContain('must be "auto", "on" or "off"');
    expect(policy({ 'mcp.tool_search_above': -1 })).toContain('must be a whole number');
  });

  it('finds and calls only what policy lets this session call, as the registry stands [mcp.search]', async () => {
    const host = await openHost([tiny('a', { allowed_tools: ['echo', 'pid'] }), tiny('b')]);
    const guest = host.guest({ ...on, toolDenylist: ['fail'] });
    const tools = await inject(guest, { params: [['mcp.server_ids', ['a']]] });
    expect(await found(tools, 'echo fail environment pid structured')).toEqual(
      expect.arrayContaining([encodedName('a', 'echo'), encodedName('a', 'pid')]),
    );
    expect(await found(tools, 'echo fail environment pid structured')).toHaveLength(2);
    for (const name of [encodedName('a', 'environment'), encodedName('b', 'echo'), 'mcp.b.echo', 'nope', SEARCH_TOOL]) {
      expect(await ask(tools, CALL_TOOL, { name, arguments: {} })).toHaveProperty('error');
    }
    await host.upsert(tiny('a', { allowed_tools: ['pid'] }));
    const late = await ask(tools, CALL_TOOL, { name: encodedName('a', 'echo'), arguments: { message: 'x' } });
    expect(late).toMatchObject({ error: { code: 'mcp_policy_denied' } });
  });

  it('has the real tool and its arguments in the trail, and in what is approved [mcp.search]', async () => {
    const host = await openHost([tiny('a', { approval_policy: { default: 'always', per_tool: {} } })]);
    const asked: ApprovalRequest[] = [];
    const decide = (request: ApprovalRequest) => {
      asked.push(request);
      return 'allow_once' as const;
    };
    const guest = new GuestMcp(host, 'run-1', taskWith({ defaultServerIds: ['a'], ...on }), { decide });
    const tools = await inject(guest);
    await ask(tools, SEARCH_TOOL, { query: 'echo' });
    await ask(tools, CALL_TOOL, { name: encodedName('a', 'echo'), arguments: { message: 'one' } });
    await ask(tools, CALL_TOOL, { name: 'mcp.a.echo', arguments: '{"message":"two"}' });
    expect(asked.map(({ server, tool, arguments: args }) => [server, tool, args])).toEqual([
      ['a', 'echo', { message: 'one' }],
      ['a', 'echo', { message: 'two' }],
    ]);
    const calls = host
      .told('tool_call.finished')
      .map(({ server_id, tool_name, status }) => [server_id, tool_name, status]);
    expect(calls).toEqual([
      [null, SEARCH_TOOL, 'ok'],
      ['a', 'echo', 'ok'],
      ['a', 'echo', 'ok'],
    ]);
    expect(host.told('tool_call.started').at(-1)?.args).toEqual({ message: 'two' });
  });

  it.each([
    [SEARCH_TOOL, 'no JSON'],
    [SEARCH_TOOL, '{}'],
    [SEARCH_TOOL, '{"query":1}'],
    [CALL_TOOL, '[]'],
    [CALL_TOOL, '{"arguments":{}}'],
    [CALL_TOOL, `{"name":"${CALL_TOOL}","arguments":{"name":"x"}}`],
  ])('answers arguments of %s that are none with an error: %s', async (name, args) => {
    const host = await openHost([tiny('a')]);
    const tools = await inject(host.guest(on));
    expect(await ask(tools, name, args)).toMatchObject({ error: { code: 'mcp_invalid_arguments', retryable: false } });
    expect(host.told('tool_call.finished')).toMatchObject([{ server_id: null, tool_name: name, status: 'failed' }]);
  });

  it('refuses arguments that the real tool does not take, and no object at all', async () => {
    const host = await openHost([tiny('a')]);
    const tools = await inject(host.guest(on));
    const name = encodedName('a', 'echo');
    for (const args of [{}, [], 7, null, 'no JSON']) {
      const answer = await ask(tools, CALL_TOOL, { name, arguments: args });
      expect(answer).toMatchObject({ error: { code: 'mcp_invalid_arguments' } });
    }
  });

  it('gives the same answer every time, in a bounded size', async () => {
    const host = await openHost([tiny('a'), tiny('b')]);
    const query = { query: 'a tool', limit: 10 };
    const first = await inject(host.guest(on));
    const second = await inject(host.guest(on, 'run-2'));
    expect(JSON.stringify(await ask(first, SEARCH_TOOL, query))).toBe(
      JSON.stringify(await ask(second, SEARCH_TOOL, query)),
    );
    const small = await inject(host.guest(on), { maxOutputBytes: 400 });
    expect(JSON.stringify(await ask(small, SEARCH_TOOL, { query: 'echo pid fail' })).length).toBeLessThanOrEqual(400);
  });

  it('is left out where the guest has a tool of one of the names, and is what a forced choice may name', async () => {
    const host = await openHost([tiny('a')]);
    const taken = await inject(host.guest(on), { guestTools: new Set([CALL_TOOL]) });
    expect(taken.definitions).toHaveLength(5);
    const tools = await inject(host.guest(on));
    const force = (name: string) => tools.toolChoice({ type: 'function', function: { name } });
    expect(force(SEARCH_TOOL)).toEqual({ type: 'function', function: { name: SEARCH_TOOL } });
    expect(force(encodedName('a', 'echo'))).toBeNull();
  });
});
