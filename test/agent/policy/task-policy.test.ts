import { describe, expect, it } from 'vitest';
import { parseTaskPolicy } from '../../../src/agent/policy/task-policy.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { disabledTask, initialSession, noToolSearch } from '../../../src/runtime/port/policy-layers.ts';

function issuesOf(config: JsonObject): string[] {
  const parsed = parseTaskPolicy(config);
  return parsed.ok ? [] : parsed.issues.map(({ key, message }) => `${key} ${message}`);
}

function warningsOf(config: JsonObject): string[] {
  const parsed = parseTaskPolicy(config);
  return parsed.ok ? parsed.warnings.map(({ key, message }) => `${key} ${message}`) : ['not accepted'];
}

describe('mcp.required_server_ids', () => {
  const listed = { 'mcp.enabled': true, 'mcp.default_server_ids': ['fs'], 'mcp.allowed_server_ids': ['fs', 'search'] };

  it('are servers of the allowed set [mcp.required]', () => {
    const parsed = parseTaskPolicy({ ...listed, 'mcp.required_server_ids': '["search"]' });
    expect(parsed).toMatchObject({ ok: true, policy: { requiredServerIds: ['search'] } });
    expect(issuesOf({ ...listed, 'mcp.required_server_ids': ['fs', 'gitlab'] })).toEqual([
      'mcp.required_server_ids names servers that are not in mcp.allowed_server_ids: gitlab',
    ]);
    expect(issuesOf({ 'mcp.enabled': true, 'mcp.required_server_ids': ['fs'] })).toHaveLength(1);
  });

  it('may be any server where a profile or tags choose [mcp.required]', () => {
    const parsed = parseTaskPolicy({ 'mcp.enabled': true, 'mcp.profile': 'dev', 'mcp.required_server_ids': ['fs'] });
    expect(parsed).toMatchObject({ ok: true, policy: { requiredServerIds: ['fs'], allowedServerIds: null } });
  });
});

describe('the task config', () => {
  it('is read from JSON strings [policy.task_config]', () => {
    const parsed = parseTaskPolicy({
      'mcp.enabled': 'true',
      'mcp.default_server_ids': '["gitlab","fs","fs"]',
      'mcp.allowed_server_ids': '["gitlab","fs","search"]',
      'mcp.tool_allowlist': '["*"]',
      'mcp.tool_denylist': '["delete_*"]',
      entry: 'main',
    });
    expect(parsed).toEqual({
      ok: true,
      policy: {
        enabled: true,
        defaultServerIds: ['gitlab', 'fs'],
        allowedServerIds: ['gitlab', 'fs', 'search'],
        serverTags: null,
        profile: null,
        toolSearch: noToolSearch,
        toolAllowlist: ['*'],
        toolDenylist: ['delete_*'],
        resourceLists: { allow: null, deny: [] },
        promptLists: { allow: null, deny: [] },
        resourceTools: false,
        toolNaming: 'encoded',
      },
      approvalRules: [],
      warnings: [],
    });
  });

  it('may write values as what they are, with the same meaning [policy.task_config]', () => {
    const values: JsonObject = {
      'mcp.enabled': true,
      'mcp.default_server_ids': ['gitlab', 'fs'],
      'mcp.allowed_server_ids': ['gitlab', 'fs', 'search'],
      'mcp.tool_allowlist': ['*'],
      'mcp.tool_denylist': ['delete_*'],
      'mcp.approval_rules': [{ servers: ['fs'], verdict: 'deny' }],
    };
    const texts = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, JSON.stringify(value)]));
    const parsed = parseTaskPolicy(values);
    expect(parsed).toMatchObject({ ok: true, policy: { enabled: true }, approvalRules: [{ verdict: 'deny' }] });
    expect(parsed).toEqual(parseTaskPolicy(texts));
  });

  it('narrows resources and prompts, and shows resources to the model [mcp.offers.policy]', () => {
    const parsed = parseTaskPolicy({
      'mcp.enabled': true,
      'mcp.default_server_ids': ['fs'],
      'mcp.resources': 'true',
      'mcp.resource_allowlist': ['file:///data/*'],
      'mcp.resource_denylist': '["*/private/*"]',
      'mcp.prompt_allowlist': [],
    });
    expect(parsed).toMatchObject({
      ok: true,
      policy: {
        resourceTools: true,
        resourceLists: { allow: ['file:///data/*'], deny: ['*/private/*'] },
        promptLists: { allow: [], deny: [] },
      },
    });
    const wrong = parseTaskPolicy({ 'mcp.enabled': true, 'mcp.resources': 1, 'mcp.resource_allowlist': 'file:' });
    expect(wrong).toMatchObject({
      ok: false,
      issues: [
        { key: 'mcp.resources', message: 'must be true or false' },
        { key: 'mcp.resource_allowlist', message: expect.stringContaining('["file:///data/*"]') },
      ],
    });
  });

  it('names tools for the sessions that do not choose [policy.task_config]', () => {
    const parsed = parseTaskPolicy({ 'mcp.enabled': true, 'mcp.tool_naming': 'readable' });
    if (!parsed.ok) return expect.fail('not accepted');
    expect(parsed.policy.toolNaming).toBe('readable');
    expect(initialSession(parsed.policy).toolNaming).toBe('readable');
  });

  it('without a word about MCP has it off [policy.task_config]', () => {
    expect(parseTaskPolicy({ entry: 'main' })).toEqual({
      ok: true,
      policy: disabledTask,
      approvalRules: [],
      warnings: [],
    });
  });

  it('allows the default set unless it says otherwise [policy.task_config]', () => {
    const parsed = parseTaskPolicy({ 'mcp.enabled': 'true', 'mcp.default_server_ids': '["fs"]' });
    expect(parsed).toMatchObject({ policy: { allowedServerIds: ['fs'], toolAllowlist: null, toolDenylist: [] } });
  });

  it('that asks for tags and lists no servers leaves the choice to the tags [policy.server_tags]', () => {
    const on = { 'mcp.enabled': true, 'mcp.server_tags': ['scm', 'search', 'scm'] };
    const chosen = { defaultServerIds: null, allowedServerIds: null, serverTags: ['scm', 'search'] };
    expect(parseTaskPolicy(on)).toMatchObject({ policy: chosen, warnings: [] });
    const listed = parseTaskPolicy({ ...on, 'mcp.allowed_server_ids': ['fs'] });
    expect(listed).toMatchObject({ policy: { defaultServerIds: null, allowedServerIds: ['fs'] } });
    const narrow = parseTaskPolicy({ ...on, 'mcp.default_server_ids': ['fs'] });
    expect(narrow).toMatchObject({ policy: { defaultServerIds: ['fs'], allowedServerIds: ['fs'] } });
  });

  it('keeps the tool lists where the default set is empty', () => {
    const parsed = parseTaskPolicy({ 'mcp.enabled': 'true', 'mcp.tool_denylist': '["x"]', 'mcp.tool_allowlist': '[]' });
    expect(parsed).toMatchObject({ policy: { defaultServerIds: [], toolDenylist: ['x'], toolAllowlist: [] } });
  });

  it.each<[string, JsonObject, string]>([
    ['a bare id', { 'mcp.default_server_ids': 'fs' }, 'mcp.default_server_ids must be a JSON list of server ids'],
    ['a JSON string', { 'mcp.default_server_ids': '"fs"' }, 'mcp.default_server_ids must be a JSON list'],
    ['half a list', { 'mcp.allowed_server_ids': '["fs"' }, 'mcp.allowed_server_ids must be a JSON list'],
    ['a list of numbers', { 'mcp.allowed_server_ids': '[1]' }, 'mcp.allowed_server_ids must be a JSON list'],
    ['an odd id', { 'mcp.default_server_ids': '["a","b c"]' }, 'mcp.default_server_ids entry 1 is not a server id'],
    ['an empty id', { 'mcp.default_server_ids': '[""]' }, 'mcp.default_server_ids entry 0 is not a server id'],
    ['another truth', { 'mcp.enabled': 'yes' }, 'mcp.enabled must be true or false'],
    ['an empty truth', { 'mcp.enabled': '' }, 'mcp.enabled must be true or false'],
    ['a number for a truth', { 'mcp.enabled': 1 }, 'mcp.enabled must be true or false'],
    ['a table for a list', { 'mcp.default_server_ids': {} }, 'mcp.default_server_ids must be a JSON list'],
    ['nothing for a list', { 'mcp.tool_denylist': null }, 'mcp.tool_denylist must be a list of strings'],
    ['no tags', { 'mcp.server_tags': [] }, 'mcp.server_tags is empty; give a JSON list of tags'],
    ['an empty tag', { 'mcp.server_tags': ['a', ''] }, 'mcp.server_tags [1] must not be empty; give'],
    ['no rules', { 'mcp.approval_rules': 'often' }, 'mcp.approval_rules'],
    ['another naming', { 'mcp.tool_naming': 'short' }, 'mcp.tool_naming must be "encoded" or "readable"'],
    ['a slip in a key with a list', { 'mcp.tool_namin': [] }, 'did you mean "mcp.tool_naming"?'],
    ['a bare pattern', { 'mcp.tool_allowlist': 'read_*' }, 'mcp.tool_allowlist must be a list of strings; give a JSON'],
    ['an empty pattern', { 'mcp.tool_denylist': '["a",""]' }, 'mcp.tool_denylist [1] must not be empty'],
    [
      'a slip',
      { 'mcp.tool_denlist': '[]' },
      'mcp.tool_denlist is not a key of the task config; did you mean "mcp.tool_denylist"?',
    ],
    [
      'an unknown key',
      { 'mcp.zzzzzzzzzzzzzzz': '1' },
      'mcp.zzzzzzzzzzzzzzz is not a key of the task config; valid keys:',
    ],
    ['a key of a session', { 'mcp.server_ids': '[]' }, 'mcp.server_ids is not a key of the task config'],
  ])('is refused for %s [policy.task_config_errors]', (_what, config, expected) => {
    expect(issuesOf(config)).toEqual([expect.stringContaining(expected)]);
  });

  it('is refused when the default set is not within the allowed set [policy.task_config_errors]', () => {
    const config = { 'mcp.default_server_ids': '["fs","git"]', 'mcp.allowed_server_ids': '["git"]' };
    expect(issuesOf(config)).toEqual([
      'mcp.default_server_ids names servers that are not in mcp.allowed_server_ids: fs',
    ]);
    expect(issuesOf({ ...config, 'mcp.allowed_server_ids': '[]' })).toHaveLength(1);
  });

  it('is refused with everything that is wrong [policy.task_config_errors]', () => {
    expect(issuesOf({ 'mcp.enabled': '1', 'mcp.tool_allowlist': '{}', 'mcp.x': '' })).toHaveLength(3);
  });

  it('is doubted when MCP is on without a default, or not turned on at all', () => {
    expect(warningsOf({ 'mcp.enabled': 'true' })).toEqual([expect.stringContaining('mcp.default_server_ids is empty')]);
    expect(warningsOf({ 'mcp.default_server_ids': '["fs"]' })).toEqual([
      'mcp.default_server_ids has no effect: mcp.enabled is not set to true',
    ]);
    expect(warningsOf({ 'mcp.enabled': 'false', 'mcp.default_server_ids': '["fs"]' })).toEqual([]);
  });
});
