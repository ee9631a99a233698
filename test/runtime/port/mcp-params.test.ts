import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { effectiveSet } from '../../../src/agent/policy/effective-set.ts';
import { aboutTool, decide } from '../../../src/agent/policy/walk.ts';
import { applyMcpParam, isMcpParam, mcpParamKeys } from '../../../src/runtime/port/mcp-params.ts';
import { initialSession } from '../../../src/runtime/port/policy-layers.ts';
import {
  anyIds,
  anyPatterns,
  anyRegistry,
  anyTask,
  anyTool,
  sessionWith,
  taskWith,
} from '../../agent/policy/policy-samples.ts';

const task = taskWith({ defaultServerIds: ['fs'], allowedServerIds: ['fs', 'git'] });
const before = sessionWith({ serverIds: ['fs'], toolDenylist: ['x'] }, task);
const placeholder = (name: string) => `\${${name}}`;

describe('SET_PARAM', () => {
  it.each<[string, unknown, object]>([
    ['mcp.enabled', true, { enabled: true }],
    ['mcp.enabled', false, { enabled: false }],
    ['mcp.server_ids', ['git', 'fs', 'git'], { serverIds: ['git', 'fs'] }],
    ['mcp.server_ids', [], { serverIds: [] }],
    ['mcp.tool_allowlist', ['read_*'], { toolAllowlist: ['read_*'] }],
    ['mcp.tool_allowlist', [], { toolAllowlist: [] }],
    ['mcp.resources', true, { resourceTools: true }],
    ['mcp.resource_allowlist', ['file:*'], { resourceLists: { allow: ['file:*'], deny: [] } }],
    ['mcp.resource_denylist', ['file:*'], { resourceLists: { allow: null, deny: ['file:*'] } }],
    ['mcp.prompt_allowlist', [], { promptLists: { allow: [], deny: [] } }],
    ['mcp.prompt_denylist', ['*'], { promptLists: { allow: null, deny: ['*'] } }],
    ['mcp.tool_denylist', ['write_*'], { toolDenylist: ['write_*'] }],
    ['mcp.tool_denylist', [], { toolDenylist: [] }],
    ['mcp.tool_naming', 'readable', { toolNaming: 'readable' }],
    ['mcp.inventory', true, { inventory: true }],
    [
      'mcp.inventory',
      `You have ${placeholder('tool_count')} tools.`,
      { inventory: expect.stringContaining('tool_count') },
    ],
  ])('%s %j changes just that', (key, value, change) => {
    expect(applyMcpParam(before, task, key, value)).toEqual({ ok: true, policy: { ...before, ...change } });
  });

  it.each<[string, unknown, string]>([
    ['mcp.enabled', 'true', 'EINVAL'],
    ['mcp.enabled', 1, 'EINVAL'],
    ['mcp.enabled', null, 'EINVAL'],
    ['mcp.server_ids', 'fs', 'EINVAL'],
    ['mcp.server_ids', null, 'EINVAL'],
    ['mcp.server_ids', ['fs', 1], 'EINVAL'],
    ['mcp.server_ids', { 0: 'fs' }, 'EINVAL'],
    ['mcp.server_ids', ['fs', 'other'], 'EACCES'],
    ['mcp.server_ids', [''], 'EACCES'],
    ['mcp.tool_allowlist', 'read_*', 'EINVAL'],
    ['mcp.resources', 'yes', 'EINVAL'],
    ['mcp.resource_allowlist', 'file:*', 'EINVAL'],
    ['mcp.prompt_denylist', [1], 'EINVAL'],
    ['mcp.tool_allowlist', [null], 'EINVAL'],
    ['mcp.tool_allowlist', [''], 'EINVAL'],
    ['mcp.tool_denylist', true, 'EINVAL'],
    ['mcp.tool_denylist', ['x'.repeat(257)], 'EINVAL'],
    ['mcp.tool_denylist', Array(513).fill('x'), 'EINVAL'],
    ['mcp.tool_naming', 'short', 'EINVAL'],
    ['mcp.inventory', 1, 'EINVAL'],
    ['mcp.inventory', placeholder('secrets'), 'EINVAL'],
    ['mcp.inventory', '$'.concat('{tool_count'), 'EINVAL'],
    ['mcp.inventory', 'x'.repeat(16_385), 'EINVAL'],
    ['mcp.task_tool_allowlist', ['*'], 'EACCES'],
    ['mcp.task_anything', null, 'EACCES'],
    ['temperature', 1, 'EINVAL'],
  ])('%s %j is refused with the right errno', (key, value, errno) => {
    expect(applyMcpParam(before, task, key, value)).toMatchObject({ ok: false, errno });
  });

  it('cannot turn on what the task has off, nor name its servers', () => {
    const off = taskWith({ enabled: false });
    const session = initialSession(off);
    expect(session.enabled).toBe(false);
    expect(applyMcpParam(session, off, 'mcp.enabled', true)).toMatchObject({ errno: 'EACCES' });
    expect(applyMcpParam(session, off, 'mcp.enabled', false)).toMatchObject({ ok: true });
    expect(applyMcpParam(session, off, 'mcp.server_ids', ['fs'])).toMatchObject({ errno: 'EACCES' });
  });

  it('is policy for its own keys alone', () => {
    expect([...mcpParamKeys, 'mcp.task_x'].every(isMcpParam)).toBe(true);
    expect(['model', 'temperature', 'mcp', 'mcp.other', 'MCP.enabled', ''].some(isMcpParam)).toBe(false);
  });

  it('in any order never gives a guest more than the task alone', () => {
    const param = fc.oneof(
      fc.tuple(fc.constant('mcp.enabled'), fc.boolean()),
      fc.tuple(fc.constant('mcp.server_ids'), anyIds),
      fc.tuple(fc.constantFrom('mcp.tool_allowlist', 'mcp.tool_denylist'), anyPatterns),
    );
    fc.assert(
      fc.property(anyRegistry, anyTask, fc.array(param, { maxLength: 6 }), anyTool, (view, policy, params, tool) => {
        let session = initialSession(policy);
        for (const [key, value] of params) {
          const result = applyMcpParam(session, policy, key, value);
          if (result.ok) session = result.policy;
        }
        for (const id of effectiveSet(view, policy, session).serverIds) {
          expect(policy.enabled && policy.allowedServerIds?.includes(id) !== false).toBe(true);
          const record = view.servers.get(id);
          if (record !== undefined && decide(aboutTool(record, policy, session, null, tool)).allowed) {
            expect(decide(aboutTool(record, policy, null, null, tool)).allowed).toBe(true);
          }
        }
      }),
    );
  });
});
