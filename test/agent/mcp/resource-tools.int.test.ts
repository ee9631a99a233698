import { describe, expect, it } from 'vitest';
import type { ApprovalRequest } from '../../../src/agent/approvals/request.ts';
import type { InjectedTools } from '../../../src/agent/chat/injected-tools.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import { LIST_RESOURCES_TOOL, READ_RESOURCE_TOOL } from '../../../src/agent/mcp/resource-tools.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { inject, namesOf, never, openHost } from './mcp-host.ts';

const notes = Object.freeze(['notes://notes/r*', 'notes://days/*']);
const offers = (id: string, more = {}) =>
  Object.freeze({ ...stdioRecord(id, 'offers.mjs'), allowed_resources: notes, ...more });
const on = { resourceTools: true } as const;

async function ask(tools: InjectedTools, name: string, args: unknown): Promise<JsonObject> {
  const text = typeof args === 'string' ? args : JSON.stringify(args);
  const [json = ''] = await tools.run([{ id: 'call_1', name, arguments: text }], never);
  return JSON.parse(json) as JsonObject;
}

const read = (tools: InjectedTools, server: string, uri: string) => ask(tools, READ_RESOURCE_TOOL, { server, uri });

describe('mcp.resources', () => {
  it('gives the model a tool that lists and one that reads, within policy [mcp.resource-tools]', async () => {
    const dead = sampleRecord('dead', { stdio: { command: '/nonexistent/server' }, allowed_resources: ['x:*'] });
    const host = await openHost([offers('a'), dead, stdioRecord('tiny', 'tiny.mjs')]);
    const tools = await inject(host.guest(on), { params: [['mcp.resource_denylist', ['*/risks']]] });
    expect(namesOf(tools).slice(-2)).toEqual([LIST_RESOURCES_TOOL, READ_RESOURCE_TOOL]);
    expect(JSON.stringify(tools.definitions.at(-2))).toContain('Servers: a, dead.');
    const { servers } = await ask(tools, LIST_RESOURCES_TOOL, '');
    expect(servers).toMatchObject([
      {
        server_id: 'a',
        resources: [{ name: 'roadmap', uri: 'notes://notes/roadmap' }],
        templates: [{ uriTemplate: 'notes://days/{day}' }],
      },
      { server_id: 'dead', error: { code: 'mcp_unavailable' } },
    ]);
    expect(await ask(tools, LIST_RESOURCES_TOOL, { server: 'a' })).toMatchObject({ servers: [{ server_id: 'a' }] });
    expect(await read(tools, 'a', 'notes://notes/roadmap')).toMatchObject({ contents: [{ text: 'This is roadmap.' }] });
    for (const uri of ['notes://notes/risks', 'notes://private/salaries']) {
      expect(await read(tools, 'a', uri)).toMatchObject({ error: { code: 'mcp_policy_denied' } });
    }
    expect(await read(tools, 'a', 'notes://days/../private/x')).toMatchObject({
      error: { code: 'mcp_invalid_arguments' },
    });
    for (const args of ['{}', 'no JSON', '{"server":"tiny","uri":"x:y"}', '{"server":"a"}']) {
      expect(await ask(tools, READ_RESOURCE_TOOL, args)).toMatchObject({ error: { code: 'mcp_invalid_arguments' } });
    }
    expect(await ask(tools, LIST_RESOURCES_TOOL, { server: 'tiny' })).toHaveProperty('error');
    const told = host.told('tool_call.finished').slice(0, 4);
    expect(told.map(({ server_id, kind, tool_name }) => [server_id, kind, tool_name])).toEqual([
      [null, undefined, LIST_RESOURCES_TOOL],
      [null, undefined, LIST_RESOURCES_TOOL],
      ['a', 'resource', 'notes://notes/roadmap'],
      ['a', 'resource', 'notes://notes/risks'],
    ]);
  });

  it('is off unless task or session say so, and where nothing may be read or the names are taken [mcp.resource-tools]', async () => {
    const host = await openHost([offers('a')]);
    const count = async (task: object, request: object = {}) =>
      namesOf(await inject(host.guest(task), request)).filter((name) => name.endsWith('_resources')).length;
    expect(await count({})).toBe(0);
    expect(await count({}, { params: [['mcp.resources', true]] })).toBe(1);
    expect(await count(on, { params: [['mcp.resources', false]] })).toBe(0);
    expect(await count(on, { guestTools: new Set([READ_RESOURCE_TOOL]) })).toBe(0);
    await host.upsert(offers('a', { allowed_resources: [] }));
    expect(await count(on)).toBe(0);
    const off = await inject(host.guest({}));
    expect(await read(off, 'a', 'notes://notes/roadmap')).toMatchObject({ error: { code: 'mcp_policy_denied' } });
  });

  it('stays beside a search for tools, and may be forced [mcp.resource-tools]', async () => {
    const host = await openHost([offers('a')]);
    const tools = await inject(host.guest({ ...on, toolSearch: { mode: 'on', above: 0 } }));
    expect(namesOf(tools)).toHaveLength(4);
    const forced = { type: 'function', function: { name: READ_RESOURCE_TOOL } };
    expect(tools.toolChoice(forced)).toEqual(forced);
    expect(await read(tools, 'a', 'notes://notes/risks')).toHaveProperty('contents');
  });

  it('says of links in answers how they are read, of those that may be [mcp.resource-tools]', async () => {
    const host = await openHost([offers('a')]);
    const found = async (task: object, maxOutputBytes = 65_536) =>
      (await ask(await inject(host.guest(task), { maxOutputBytes }), encodedName('a', 'find'), {})).content;
    expect(await found(on)).toEqual([
      { type: 'text', text: 'two notes' },
      {
        type: 'resource_link',
        uri: 'notes://notes/roadmap',
        name: 'roadmap',
        read_with: { tool: READ_RESOURCE_TOOL, arguments: { server: 'a', uri: 'notes://notes/roadmap' } },
      },
      { type: 'resource_link', uri: 'notes://private/salaries', name: 'salaries' },
    ]);
    expect(JSON.stringify(await found({}))).not.toContain('read_with');
    expect(JSON.stringify(await found(on, 250))).not.toContain('read_with');
  });

  it('answers the calls of one turn in their order, whatever takes longest [mcp.resource-tools]', async () => {
    const host = await openHost([offers('a')]);
    const tools = await inject(host.guest(on));
    const uri = 'notes://notes/risks';
    const calls = [
      { id: '1', name: LIST_RESOURCES_TOOL, arguments: '{}' },
      { id: '2', name: READ_RESOURCE_TOOL, arguments: JSON.stringify({ server: 'a', uri }) },
      { id: '3', name: LIST_RESOURCES_TOOL, arguments: '{}' },
      { id: '4', name: encodedName('a', 'find'), arguments: '{}' },
    ];
    const answers = (await tools.run(calls, never)).map((json) => Object.keys(JSON.parse(json) as JsonObject));
    expect(answers).toEqual([['servers'], ['contents'], ['servers'], ['content']]);
  });

  it('answers with as many resources as fit [mcp.resource-tools]', async () => {
    const host = await openHost([offers('a', { allowed_resources: ['*'] })]);
    const tools = await inject(host.guest(on), { maxOutputBytes: 600 });
    const [json = ''] = await tools.run([{ id: 'call_1', name: LIST_RESOURCES_TOOL, arguments: '{}' }], never);
    expect(Buffer.byteLength(json)).toBeLessThanOrEqual(600);
    const answer = JSON.parse(json) as { servers: { resources: unknown[] }[]; left_out: number };
    expect((answer.servers[0]?.resources.length ?? 0) + answer.left_out).toBe(6);
    expect(answer.left_out).toBeGreaterThan(0);
  });
});

describe('a read that needs an approval', () => {
  it('is asked about by its uri, and a grant for it is not one for a prompt or a tool [mcp.offers.approval]', async () => {
    const strict = { approval_policy: { default: 'always', per_tool: {} }, allowed_prompts: ['*'] };
    const host = await openHost([offers('a', strict)]);
    const asked: ApprovalRequest[] = [];
    const decide = (request: ApprovalRequest) => {
      asked.push(request);
      return request.tool === 'poem' ? ('deny' as const) : ('allow_session' as const);
    };
    const guest = new GuestMcp(host, 'run-1', taskWith({ defaultServerIds: ['a'] }), { decide });
    const call = async (kind: 'tool' | 'resource' | 'prompt', tool: string, args = '{}') =>
      JSON.parse(
        await guest.call({ kind, serverId: 'a', tool, arguments: args, callId: 'c', session: 's' }, never),
      ) as JsonObject;
    expect(await call('resource', 'notes://notes/risks')).toHaveProperty('contents');
    expect(await call('resource', 'notes://notes/risks')).toHaveProperty('contents');
    expect(await call('resource', 'notes://notes/roadmap')).toHaveProperty('contents');
    expect(await call('prompt', 'poem', '{"tone":"sad"}')).toMatchObject({ error: { code: 'mcp_approval_denied' } });
    expect(asked.map(({ kind, tool, arguments: args }) => [kind, tool, args])).toEqual([
      ['resource', 'notes://notes/risks', {}],
      ['resource', 'notes://notes/roadmap', {}],
      ['prompt', 'poem', { tone: 'sad' }],
    ]);
    expect(host.told('approval.decided').map(({ kind, status }) => [kind, status])).toEqual([
      ['resource', 'allowed'],
      ['resource', 'allowed'],
      ['prompt', 'denied'],
    ]);
  });
});
