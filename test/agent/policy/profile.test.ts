import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RegistryView } from '../../../src/agent/policy/decision.ts';
import { policyHash } from '../../../src/agent/policy/definition-hash.ts';
import { effectiveSet } from '../../../src/agent/policy/effective-set.ts';
import { profileOf } from '../../../src/agent/policy/record-checks.ts';
import { parseTaskPolicy } from '../../../src/agent/policy/task-policy.ts';
import { aboutCall, aboutServer, aboutTool, decide, explain, firstDenial } from '../../../src/agent/policy/walk.ts';
import { noOverrides, type ProfileOverrides, type TaskPolicy } from '../../../src/runtime/port/policy-layers.ts';
import type { McpProfile } from '../../../src/server/records/profile.ts';
import { sampleProfile } from '../../server/records/profile-samples.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { anyPatterns, anyRegistry, anyTool, sessionWith, taskWith } from './policy-samples.ts';

const records = {
  git: sampleRecord('git', { allowed_tools: ['*'], tags: ['scm'] }),
  mail: sampleRecord('mail', { allowed_tools: ['*'], tags: ['office'] }),
  web: sampleRecord('web', { allowed_tools: ['*'], tags: ['search', 'scm'] }),
};

function registryOf(...profiles: McpProfile[]): RegistryView {
  const byName = new Map(profiles.map((profile) => [profile.name, profile]));
  return { servers: new Map(Object.entries(records)), stale: false, profiles: { byName, stale: false } };
}

const taskOf = (fields: Partial<TaskPolicy> = {}, overrides: Partial<ProfileOverrides> = {}): TaskPolicy =>
  taskWith({
    defaultServerIds: null,
    allowedServerIds: null,
    profile: { name: 'review', overrides: { ...noOverrides, ...overrides } },
    ...fields,
  });
const review = (fields: Partial<McpProfile>) => sampleProfile('review', fields);
const serversOf = (view: RegistryView, task = taskOf(), session = sessionWith({}, task)) => {
  const { serverIds, exclusions } = effectiveSet(view, task, session);
  return [serverIds, exclusions.map(({ serverId, reason, layer }) => `${serverId} ${reason} ${layer}`)];
};
const reasonOf = (view: RegistryView | null, task: TaskPolicy, server: string, tool: string) => {
  const decision = decide(aboutCall(view, task, sessionWith({}, task), server, tool));
  return decision.allowed ? 'allowed' : `${decision.reason} ${decision.layer}`;
};

describe('the servers of a task with a profile', () => {
  it.each<[string, Partial<McpProfile>, TaskPolicy, string[], string[]]>([
    ['those it lists', { server_ids: ['git', 'mail'] }, taskOf(), ['git', 'mail'], []],
    ['those with one of its tags', { server_tags: ['scm'] }, taskOf(), ['git', 'web'], []],
    ['both together', { server_ids: ['mail'], server_tags: ['search'] }, taskOf(), ['mail', 'web'], []],
    ['none where it has none', {}, taskOf(), [], ['* not_in_profile profile']],
    [
      'without those the registry lacks',
      { server_ids: ['git', 'no'] },
      taskOf(),
      ['git'],
      ['no unknown_server registry'],
    ],
    [
      'fewer where the task lists its own',
      { server_ids: ['git', 'mail'] },
      taskOf({ defaultServerIds: ['mail', 'web'], allowedServerIds: ['mail', 'web'] }),
      ['mail'],
      ['web not_in_profile profile'],
    ],
    ['fewer by the tags of the task', { server_ids: ['git', 'mail'] }, taskOf({ serverTags: ['scm'] }), ['git'], []],
    ['fewer by overrides: ids', { server_tags: ['scm'] }, taskOf({}, { server_ids: ['web', 'mail'] }), ['web'], []],
    [
      'fewer by overrides: tags',
      { server_ids: ['git', 'mail'] },
      taskOf({}, { server_tags: ['office'] }),
      ['mail'],
      [],
    ],
    [
      'none by empty overrides',
      { server_ids: ['git'] },
      taskOf({}, { server_ids: [] }),
      [],
      ['* not_in_profile profile'],
    ],
  ])('are %s [policy.profile]', (_, profile, task, servers, exclusions) => {
    expect(serversOf(registryOf(review(profile)), task)).toEqual([servers, exclusions]);
  });

  it('are none where the profile is missing, too old, or not there yet, and every reason says so [policy.profile]', () => {
    const listed = taskOf({ defaultServerIds: ['git'], allowedServerIds: ['git'] });
    const view = registryOf(sampleProfile('other'));
    expect(serversOf(view)).toEqual([[], ['* unknown_profile profile']]);
    expect(serversOf(view, listed)).toEqual([[], ['git unknown_profile profile']]);
    const stale = { ...registryOf(review({ server_ids: ['git'] })) };
    const old = { ...stale, profiles: { byName: stale.profiles?.byName ?? new Map(), stale: true } };
    expect(serversOf(old)).toEqual([[], ['* stale_registry profile']]);
    expect(serversOf({ ...view, profiles: null })).toEqual([[], ['* registry_not_ready profile']]);
    expect(decide(aboutServer(view, taskOf(), null, 'git'))).toMatchObject({
      detail: `the task's mcp.profile "review" is not in the registry, so everything is denied`,
    });
  });

  it('look the same outside it, whether they exist or not', () => {
    const view = registryOf(review({ server_tags: ['scm'] }));
    const reasons = ['mail', 'nope'].map((id) => {
      const decision = decide(aboutServer(view, taskOf(), null, id));
      return decision.allowed ? '' : decision.reason + decision.detail.replace(id, 'ID');
    });
    expect(reasons[0]).toBe(reasons[1]);
  });
});

describe('the tools of a task with a profile', () => {
  it.each<[string, Partial<McpProfile>, Partial<ProfileOverrides>, string]>([
    ['no list', {}, {}, 'allowed'],
    ['the denylist', { tool_denylist: ['get_*'] }, {}, 'denied_by_profile profile'],
    ['the allowlist', { tool_allowlist: ['list_*'] }, {}, 'denied_by_profile profile'],
    ['an empty allowlist', { tool_allowlist: [] }, {}, 'denied_by_profile profile'],
    ['the tools of this server', { allowed_tools: { git: ['list_*'] } }, {}, 'denied_by_profile profile'],
    ['no tool of this server', { allowed_tools: { git: [] } }, {}, 'denied_by_profile profile'],
    ['the tools of another server', { allowed_tools: { mail: [] } }, {}, 'allowed'],
    ['the override denylist', {}, { tool_denylist: ['*'] }, 'denied_by_task task'],
    ['the override allowlist', {}, { tool_allowlist: ['x'] }, 'denied_by_task task'],
    ['the override for this server', {}, { allowed_tools: { git: ['x'] } }, 'denied_by_task task'],
    [
      'an override that allows more',
      { tool_denylist: ['get_*'] },
      { tool_allowlist: ['*'] },
      'denied_by_profile profile',
    ],
  ])('are narrowed by %s [policy.profile]', (_, profile, overrides, expected) => {
    const view = registryOf(review({ server_ids: ['git'], ...profile }));
    const task = taskOf({}, overrides);
    expect(reasonOf(view, task, 'git', 'get_file')).toBe(expected);
    // A list of tools is filtered by the same.
    const allowed = decide(aboutTool(records.git, task, null, profileOf(view, task), 'get_file')).allowed;
    expect(allowed).toBe(expected === 'allowed');
    const question = aboutCall(view, task, sessionWith({}, task), 'git', 'get_file');
    expect(firstDenial(explain(question)) === null).toBe(expected === 'allowed');
  });

  it('are never more than without the profile, nor more with overrides than without [policy.profile]', () => {
    const servers = fc.subarray(['a', 'b', 'c', 'd']);
    const lists = {
      tool_allowlist: fc.option(anyPatterns, { nil: null }),
      tool_denylist: anyPatterns,
      allowed_tools: fc.dictionary(fc.constantFrom('a', 'b'), anyPatterns, { noNullPrototype: true }),
    };
    const profile = fc.record({ server_ids: servers, server_tags: fc.subarray(['scm', 'search']), ...lists });
    const overrides = fc.record({
      server_ids: fc.option(servers, { nil: null }),
      server_tags: fc.option(fc.subarray(['scm', 'search']), { nil: null }),
      ...lists,
    });
    fc.assert(
      fc.property(anyRegistry, profile, overrides, servers, anyTool, (view, fields, narrowing, ids, tool) => {
        const withProfile = {
          ...view,
          profiles: { byName: new Map([['review', review(fields)]]), stale: false },
        };
        const plain = taskWith({ defaultServerIds: ids });
        const profiled = { ...plain, profile: { name: 'review', overrides: noOverrides } };
        const overridden = { ...plain, profile: { name: 'review', overrides: narrowing } };
        const can = (task: TaskPolicy, id: string) =>
          decide(aboutCall(withProfile, task, sessionWith({}, task), id, tool)).allowed;
        for (const id of ['a', 'b', 'c', 'd']) {
          if (can(overridden, id)) expect(can(profiled, id)).toBe(true);
          if (can(profiled, id)) expect(can(plain, id)).toBe(true);
        }
      }),
    );
  });

  it('are hashed with the profile, as far as it is about the server', () => {
    const hash = (profile: McpProfile | null, task = taskOf()) => policyHash(records.git, task, null, profile);
    const plain = hash(review({ server_ids: ['git'] }));
    expect(hash(review({ server_ids: ['git', 'mail'], allowed_tools: { mail: ['x'] } }))).toBe(plain);
    for (const other of [{ tool_denylist: ['x'] }, { tool_allowlist: ['x'] }, { allowed_tools: { git: ['x'] } }]) {
      expect(hash(review(other))).not.toBe(plain);
      expect(hash(review({ server_ids: ['git'] }), taskOf({}, other))).not.toBe(plain);
    }
  });
});

describe('the task config', () => {
  it('names a profile and narrows it [policy.profile]', () => {
    const parsed = parseTaskPolicy({
      'mcp.enabled': true,
      'mcp.profile': 'code-review',
      'mcp.profile_overrides': '{"server_ids":["git"],"tool_denylist":["delete_*"]}',
    });
    const overrides = { ...noOverrides, server_ids: ['git'], tool_denylist: ['delete_*'] };
    expect(parsed).toMatchObject({
      policy: { defaultServerIds: null, allowedServerIds: null, profile: { name: 'code-review', overrides } },
      warnings: [],
    });
  });

  it.each([
    [{ 'mcp.profile': 'a b' }, 'mcp.profile must be the name of a profile'],
    [{ 'mcp.profile': ['x'] }, 'mcp.profile must be the name of a profile'],
    [{ 'mcp.profile_overrides': {} }, 'mcp.profile_overrides requires mcp.profile'],
    [
      { 'mcp.profile': 'p', 'mcp.profile_overrides': { tool_denylst: [] } },
      'mcp.profile_overrides tool_denylst is not a valid field; did you mean',
    ],
    [
      { 'mcp.profile': 'p', 'mcp.profile_overrides': { server_ids: 'git' } },
      'mcp.profile_overrides server_ids must be a list',
    ],
    [{ 'mcp.profile': 'p', 'mcp.profile_overrides': 'x' }, 'mcp.profile_overrides'],
  ])('is refused for %j [policy.task_config_errors]', (config, expected) => {
    const parsed = parseTaskPolicy({ 'mcp.enabled': true, ...config });
    expect(parsed.ok ? [] : parsed.issues.map(({ key, message }) => `${key} ${message}`)).toEqual([
      expect.stringContaining(expected),
    ]);
  });
});
