import { describe, expect, it } from 'vitest';
import type { LayerReason, PolicyLayer } from '../../../src/agent/policy/decision.ts';
import { hashDefinition, type ToolDefinition } from '../../../src/agent/policy/definition-hash.ts';
import { aboutCall, aboutServer, aboutTool, decide, explain, firstDenial } from '../../../src/agent/policy/walk.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { registryWith, sessionWith, taskWith } from './policy-samples.ts';

const registry = registryWith({ fs: ['read_*'], shut: [] });
const task = taskWith({ defaultServerIds: ['fs', 'shut', 'gone'], allowedServerIds: ['fs', 'shut', 'gone', 'git'] });
const call = (changes: Partial<Parameters<typeof ask>[0]>) => ask({ ...usual, ...changes });
const usual = {
  view: registry as typeof registry | null,
  task,
  session: sessionWith(),
  server: 'fs',
  tool: 'read_a',
  definition: null as ToolDefinition | null,
};
const ask = ({ view, task: policy, session, server, tool, definition: said }: typeof usual) =>
  aboutCall(view, policy, session, server, tool, said);
const viewOf = (fields: Record<string, unknown>) => ({
  ...registry,
  servers: new Map([['fs', sampleRecord('fs', fields)]]),
});
const definition = {
  name: 'read_a',
  description: 'reads a',
  inputSchema: { type: 'object' },
  outputSchema: null,
  annotations: null,
};

describe('a denial', () => {
  // The sentences are what the decision log, the audit trail and the answer to a refused call show.
  it.each<[ReturnType<typeof call>, LayerReason, PolicyLayer, string]>([
    [call({ task: { ...task, enabled: false } }), 'disabled', 'task', 'the task does not enable MCP (mcp.enabled)'],
    [call({ server: 'x' }), 'not_allowed', 'task', `"x" is not in the task's mcp.allowed_server_ids`],
    [
      call({ session: sessionWith({ enabled: false }) }),
      'disabled',
      'session',
      'the session disabled MCP (mcp.enabled)',
    ],
    [
      call({ session: sessionWith({ serverIds: ['git'] }) }),
      'denied_by_session',
      'session',
      `"fs" is not in the session's mcp.server_ids`,
    ],
    [
      call({ server: 'git' }),
      'not_requested',
      'session',
      '"git" is not in the default set and the session did not request it',
    ],
    [call({ view: null }), 'registry_not_ready', 'node', 'no registry snapshot has been received yet'],
    [
      call({ view: { ...registry, stale: true } }),
      'stale_registry',
      'node',
      'the registry snapshot is older than max_staleness_ms, or the registry rejects this node',
    ],
    [call({ server: 'gone' }), 'unknown_server', 'registry', '"gone" is not in the registry'],
    [call({ server: 'shut' }), 'deny_all', 'registry', 'the server "shut" has no allowed_tools, so all are denied'],
    [call({ tool: 'write' }), 'denied_by_registry', 'registry', `the server's allowed_tools do not match "write"`],
    [
      call({ view: viewOf({ namespaces: ['team-*', 'defaul?s'] }) }),
      'not_in_namespace',
      'registry',
      'the namespaces of the server "fs" do not match "default"',
    ],
    [
      call({ view: viewOf({ namespaces: [] }) }),
      'not_in_namespace',
      'registry',
      'the namespaces of the server "fs" do not match "default"',
    ],
    [
      call({ view: viewOf({ pins: { read_a: 'a'.repeat(64) } }), definition }),
      'pin_mismatch',
      'registry',
      `the definition of "read_a" does not match the pinned definition: review it; its sha256 is now ${hashDefinition(definition)}`,
    ],
    [
      call({ task: { ...task, serverTags: ['scm'] } }),
      'not_tagged',
      'task',
      `"fs" has none of the tags in the task's mcp.server_tags`,
    ],
    [
      call({ task: { ...task, toolDenylist: ['*_a'] } }),
      'denied_by_task',
      'task',
      `the task's mcp.tool_denylist matches "read_a"`,
    ],
    [
      call({ task: { ...task, toolAllowlist: [] } }),
      'denied_by_task',
      'task',
      `the task's mcp.tool_allowlist does not match "read_a"`,
    ],
    [
      call({ session: sessionWith({ toolDenylist: ['*'] }) }),
      'denied_by_session',
      'session',
      `the session's mcp.tool_denylist matches "read_a"`,
    ],
    [
      call({ session: sessionWith({ toolAllowlist: ['b'] }) }),
      'denied_by_session',
      'session',
      `the session's mcp.tool_allowlist does not match "read_a"`,
    ],
  ])('%# is the first of the explanation, in the words of the trail', (question, reason, layer, detail) => {
    expect(decide(question)).toEqual({ allowed: false, reason, layer, detail });
    expect(firstDenial(explain(question))).toMatchObject({ verdict: 'denies', reason, layer });
  });

  it('is not there where every layer lets a call through, which then has its record', () => {
    const question = call({});
    expect(firstDenial(explain(question))).toBeNull();
    expect(decide(question)).toEqual({ allowed: true, record: registry.servers.get('fs') });
  });
});

describe('an explanation', () => {
  it('names the pattern that lets a tool in, and the one that keeps it out', () => {
    const record = sampleRecord('fs', { allowed_tools: ['list_*', 'read_*'] });
    const narrow = taskWith({ toolDenylist: ['*_media', 'read_secret*'], toolAllowlist: ['read_*'] });
    const session = sessionWith({ toolAllowlist: ['*file*'], toolDenylist: [] });
    const lines = (tool: string) =>
      explain(aboutTool(record, narrow, session, null, tool)).map(({ layer, rule, verdict, matched }) => [
        layer,
        rule,
        verdict,
        matched,
      ]);
    expect(lines('read_file')).toEqual([
      ['registry', 'allowed_tools', 'allows', 'read_*'],
      ['task', 'mcp.tool_denylist', 'silent', null],
      ['task', 'mcp.tool_allowlist', 'allows', 'read_*'],
      ['session', 'mcp.tool_denylist', 'silent', null],
      ['session', 'mcp.tool_allowlist', 'allows', '*file*'],
    ]);
    expect(lines('read_secret_file')[1]).toEqual(['task', 'mcp.tool_denylist', 'denies', 'read_secret*']);
    expect(lines('write_file')[0]).toEqual(['registry', 'allowed_tools', 'denies', null]);
    expect(lines('read_dir')[4]).toEqual(['session', 'mcp.tool_allowlist', 'denies', null]);
  });

  it('goes through all layers, not only to the first that denies [explain.layers]', () => {
    const off = taskWith({ enabled: false, defaultServerIds: ['other'], toolDenylist: ['*'] });
    const session = sessionWith({ enabled: false }, off);
    const answers = explain(aboutCall(registryWith({ fs: [] }), off, session, 'fs', 'read'));
    expect(answers.filter(({ verdict }) => verdict === 'denies').map(({ reason }) => reason)).toEqual([
      'disabled',
      'not_allowed',
      'disabled',
      'deny_all',
      'denied_by_task',
    ]);
    for (const { verdict, reason } of answers) expect(reason !== null).toBe(verdict === 'denies');
  });

  it('of a server speaks of its tools only where it allows none [explain.layers]', () => {
    const rules = (id: string) => explain(aboutServer(registry, task, null, id)).map(({ rule }) => rule);
    expect(rules('fs')).toEqual(['mcp.enabled', 'mcp.allowed_server_ids', 'server_id']);
    expect(rules('shut')).toEqual(['mcp.enabled', 'mcp.allowed_server_ids', 'server_id', 'allowed_tools']);
  });
});

it('namespaces and pins are told where a record has some, and let through what fits them', () => {
  const told = (fields: Record<string, unknown>) =>
    explain(call({ view: viewOf(fields), definition }))
      .filter(({ rule }) => rule === 'namespaces' || rule === 'pins')
      .map(({ rule, verdict, matched }) => [rule, verdict, matched]);
  expect(told({})).toEqual([]);
  expect(told({ namespaces: ['x', 'def*'] })).toEqual([['namespaces', 'allows', 'def*']]);
  expect(told({ pins: { read_b: 'a'.repeat(64) } })).toEqual([]);
  const hash = hashDefinition(definition);
  expect(told({ pins: { read_a: hash } })).toEqual([['pins', 'allows', hash]]);
});
