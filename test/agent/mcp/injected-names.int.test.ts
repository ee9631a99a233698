import { describe, expect, it } from 'vitest';
import { looksLikeMcp, noInjectedTools } from '../../../src/agent/chat/injected-tools.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { callOf, inject, namesOf, openHost, textOf } from './mcp-host.ts';

const but = (record: McpServerRecord, fields: Partial<McpServerRecord>): McpServerRecord =>
  Object.freeze({ ...record, ...fields });
const tiny = (fields: Partial<McpServerRecord> = {}) => but(stdioRecord('tiny', 'tiny.mjs'), fields);
const echo = encodedName('tiny', 'echo');

describe('a name that was not injected', () => {
  const tools = ['echo', 'environment', 'pid'];

  it.each(['encoded', 'readable'])('is refused in every form, with %s names [mcp.refusal]', async (naming) => {
    const host = await openHost([
      but(stdioRecord('tiny', 'tiny.mjs'), { tool_prefix: 'little', tool_namespace: 'files', allowed_tools: tools }),
    ]);
    const injected = await inject(host.guest({ toolDenylist: ['environment'] }), {
      params: [
        ['mcp.tool_naming', naming],
        ['mcp.tool_denylist', ['pid']],
      ],
    });
    expect(namesOf(injected)).toHaveLength(1);
    const forms = (tool: string) => [encodedName('tiny', tool), `mcp.tiny.${tool}`, `files.${tool}`, `little_${tool}`];
    const denied: [string, string][] = [
      ['environment', 'denied_by_task'],
      ['pid', 'denied_by_session'],
      ['structured', 'denied_by_registry'],
    ];
    for (const [tool, reason] of denied) {
      for (const name of forms(tool)) {
        expect(injected.owns(name)).toBe(true);
        const { error } = await callOf(injected, name);
        expect([name, error?.code, error?.retryable]).toEqual([name, 'mcp_policy_denied', false]);
        expect(host.told('tool_call.finished').at(-1)).toMatchObject({
          server_id: 'tiny',
          tool_name: tool,
          status: 'denied',
          reason,
        });
      }
    }
    // What was injected has one name and its aliases, not the other naming's.
    const other = naming === 'encoded' ? 'little_echo' : encodedName('tiny', 'echo');
    expect(injected.owns(other)).toBe(true);
    expect((await callOf(injected, other, { message: 'x' })).error?.code).toBe('mcp_policy_denied');
    const strangers = ['mcp__YQ__Yg', 'mcp__', 'mcp.', 'mcp.other.echo', 'mcp.tiny.nothing', encodedName('b', 'c')];
    for (const name of strangers) {
      expect(injected.owns(name)).toBe(true);
      expect((await callOf(injected, name)).error?.code).toBe('mcp_policy_denied');
      expect(host.told('tool_call.finished').at(-1)).toMatchObject({
        server_id: null,
        tool_name: name,
        reason: 'not_injected',
      });
    }
    expect(host.invocations.every(({ outcome }) => outcome === 'mcp_policy_denied')).toBe(true);
    expect(host.invocations).toHaveLength(12 + 1 + strangers.length);
  });

  it('is none of ours where it looks like no tool of these servers [mcp.refusal]', async () => {
    const host = await openHost([tiny()]);
    const injected = await inject(host.guest());
    for (const name of ['echo', 'tiny', 'Mcp.tiny.echo', 'x_mcp__a', '']) expect(injected.owns(name)).toBe(false);
  });

  it('is refused where an alias names two tools', async () => {
    const shared = { tool_namespace: 'both', allowed_tools: ['echo'] };
    const host = await openHost([but(stdioRecord('a', 'tiny.mjs'), shared), but(stdioRecord('b', 'tiny.mjs'), shared)]);
    const injected = await inject(host.guest());
    expect((await callOf(injected, 'both.echo', { message: 'x' })).error?.code).toBe('mcp_policy_denied');
    expect(await textOf(injected, 'mcp.a.echo', { message: 'x' })).toBe('x');
  });

  it('is refused in a send that has no MCP at all [mcp.refusal]', async () => {
    for (const name of ['mcp__ZnM__cmVhZF9maWxl', 'mcp.fs.read_file', 'mcp.x', 'mcp__']) {
      expect(looksLikeMcp(name)).toBe(true);
      expect(noInjectedTools.owns(name)).toBe(true);
      expect((await callOf(noInjectedTools, name)).error).toEqual({
        code: 'mcp_policy_denied',
        message: `"${name}" is not among the tools of this send`,
        retryable: false,
      });
    }
    for (const name of ['mcp_read', 'mcp', 'MCP.x', 'fs_read_file']) expect(noInjectedTools.owns(name)).toBe(false);
  });
});

describe('tool_choice', () => {
  const force = (name: string) => ({ type: 'function', function: { name } });

  it('forces an injected tool under the name it was injected with [mcp.tool-choice]', async () => {
    const host = await openHost([tiny({ allowed_tools: ['echo'], tool_namespace: 'little' })]);
    const guest = host.guest();
    const encoded = await inject(guest);
    for (const name of [echo, 'mcp.tiny.echo', 'little.echo']) {
      expect(encoded.toolChoice(force(name))).toEqual(force(echo));
    }
    const readable = await inject(guest, { params: [['mcp.tool_naming', 'readable']] });
    expect(readable.toolChoice(force('mcp.tiny.echo'))).toEqual(force('tiny_echo'));
  });

  it('that forces an MCP tool which is not there gives nothing [mcp.tool-choice]', async () => {
    const host = await openHost([tiny({ allowed_tools: ['echo'] })]);
    const tools = await inject(host.guest());
    for (const name of ['mcp.tiny.pid', 'mcp.other.echo', encodedName('tiny', 'pid'), 'tiny_pid']) {
      expect(tools.toolChoice(force(name))).toBeNull();
    }
    expect(noInjectedTools.toolChoice(force('mcp.tiny.echo'))).toBeNull();
    expect(noInjectedTools.toolChoice(force(echo))).toBeNull();
  });

  it.each([['auto'], ['required'], ['none'], [force('sum')], [{ type: 'allowed_tools' }], [{ function: 'x' }]])(
    '%j passes as it is [mcp.tool-choice]',
    async (choice) => {
      const host = await openHost([tiny()]);
      const tools = await inject(host.guest());
      expect(tools.toolChoice(choice)).toEqual(choice);
      expect(noInjectedTools.toolChoice(choice)).toEqual(choice);
    },
  );
});
