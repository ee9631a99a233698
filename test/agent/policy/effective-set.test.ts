import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RegistryView } from '../../../src/agent/policy/decision.ts';
import { defaultServers, effectiveSet } from '../../../src/agent/policy/effective-set.ts';
import { aboutServer, decide } from '../../../src/agent/policy/walk.ts';
import type { SessionPolicy, TaskPolicy } from '../../../src/runtime/port/policy-layers.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { anyRegistry, anySession, anyTask, registryWith, sessionWith, taskWith } from './policy-samples.ts';

const tagged: RegistryView = {
  servers: new Map(
    Object.entries({ git: ['scm'], forge: ['search', 'scm'], mail: ['office'] }).map(([id, tags]) => [
      id,
      sampleRecord(id, { allowed_tools: ['*'], tags }),
    ]),
  ),
  stale: false,
  profiles: null,
};
const byTags = (...serverTags: string[]) => ({
  ...taskWith({ defaultServerIds: null, allowedServerIds: null }),
  serverTags,
});

const registry = registryWith({ fs: ['*'], git: ['read_*'], shut: [] });

describe('the effective set', () => {
  const cases: [string, RegistryView | null, TaskPolicy, SessionPolicy, string[], string[]][] = [
    ['is the default set', registry, taskWith({ defaultServerIds: ['fs'] }), sessionWith(), ['fs'], []],
    ['is empty when nothing is asked for', registry, taskWith(), sessionWith(), [], []],
    [
      'is what the session asks for within the allowed set',
      registry,
      taskWith({ allowedServerIds: ['fs', 'git'] }),
      sessionWith({ serverIds: ['git'] }),
      ['git'],
      [],
    ],
    [
      'does not depend on the order of the request',
      registry,
      taskWith({ allowedServerIds: ['git', 'fs'] }),
      sessionWith({ serverIds: ['git', 'fs'] }),
      ['fs', 'git'],
      [],
    ],
    [
      'loses defaults that the session leaves out',
      registry,
      taskWith({ defaultServerIds: ['fs', 'git'] }),
      sessionWith({ serverIds: ['git'] }),
      ['git'],
      ['fs denied_by_session session'],
    ],
    [
      'is empty when the session asks for none',
      registry,
      taskWith({ defaultServerIds: ['fs'] }),
      sessionWith({ serverIds: [] }),
      [],
      ['fs denied_by_session session'],
    ],
    [
      'never goes beyond what the task allows',
      registry,
      taskWith({ defaultServerIds: ['fs'] }),
      sessionWith({ serverIds: ['fs', 'git'] }),
      ['fs'],
      ['git not_allowed task'],
    ],
    [
      'leaves out what the registry does not have',
      registry,
      taskWith({ defaultServerIds: ['fs', 'nope'] }),
      sessionWith(),
      ['fs'],
      ['nope unknown_server registry'],
    ],
    [
      'leaves out a server without allowed tools',
      registry,
      taskWith({ defaultServerIds: ['shut'] }),
      sessionWith(),
      [],
      ['shut deny_all registry'],
    ],
    [
      'is empty when the task has MCP off, whatever the session says',
      registry,
      taskWith({ enabled: false, defaultServerIds: ['fs'] }),
      sessionWith({ enabled: true, serverIds: ['fs'] }),
      [],
      ['fs disabled task'],
    ],
    [
      'is empty when the session disables MCP',
      registry,
      taskWith({ defaultServerIds: ['fs'] }),
      sessionWith({ enabled: false }),
      [],
      ['fs disabled session'],
    ],
    [
      'is empty before the first snapshot',
      null,
      taskWith({ defaultServerIds: ['fs'] }),
      sessionWith(),
      [],
      ['fs registry_not_ready node'],
    ],
    [
      'is what has one of the tags, where the task lists nothing',
      tagged,
      byTags('scm', 'none'),
      sessionWith(),
      ['forge', 'git'],
      [],
    ],
    [
      'says why a listed server without the tags is left out',
      tagged,
      { ...byTags('scm'), allowedServerIds: ['git', 'mail', 'gone'] },
      sessionWith(),
      ['git'],
      ['gone unknown_server registry', 'mail not_tagged task'],
    ],
    [
      'has nothing of a session that asks for servers without the tags',
      tagged,
      byTags('scm'),
      sessionWith({ serverIds: ['mail', 'gone', 'git'] }),
      ['git'],
      ['forge denied_by_session session', 'gone not_tagged task', 'mail not_tagged task'],
    ],
    ['is empty where no server has the tags', tagged, byTags('x'), sessionWith(), [], ['* not_tagged task']],
    [
      'of tags is empty before the first snapshot',
      null,
      byTags('scm'),
      sessionWith(),
      [],
      ['* registry_not_ready node'],
    ],
    [
      'of tags is empty when the snapshot is too old',
      { ...tagged, stale: true },
      byTags('scm'),
      sessionWith(),
      [],
      ['* stale_registry node'],
    ],
    [
      'is empty where the task neither lists servers nor says how to choose them',
      tagged,
      taskWith({ defaultServerIds: ['git'], allowedServerIds: null }),
      sessionWith(),
      [],
      ['git not_allowed task'],
    ],
    [
      'is empty when the snapshot is too old',
      { ...registry, stale: true },
      taskWith({ defaultServerIds: ['fs'] }),
      sessionWith(),
      [],
      ['fs stale_registry node'],
    ],
  ];

  it.each(cases)('%s', (_what, view, task, session, serverIds, exclusions) => {
    const set = effectiveSet(view, task, session);
    expect(set.serverIds).toEqual(serverIds);
    expect(set.exclusions.map(({ serverId, reason, layer }) => `${serverId} ${reason} ${layer}`)).toEqual(exclusions);
  });

  it('only narrows from layer to layer, and says why for everything that was asked for', () => {
    fc.assert(
      fc.property(anyRegistry, anyTask, anySession, (view, task, session) => {
        const set = effectiveSet(view, task, session);
        const defaults = defaultServers(view, task);
        const asked = session.serverIds ?? defaults;
        for (const id of set.serverIds) {
          expect(view.servers.has(id) && asked.includes(id)).toBe(true);
          expect(task.allowedServerIds?.includes(id) ?? task.serverTags !== null).toBe(true);
          const tags = view.servers.get(id)?.tags ?? [];
          expect(task.serverTags?.some((tag) => tags.includes(tag)) ?? true).toBe(true);
          expect(task.enabled && session.enabled).toBe(true);
        }
        const logged = set.exclusions.map(({ serverId }) => serverId).filter((id) => id !== '*');
        expect([...set.serverIds, ...logged].sort()).toEqual([...new Set([...asked, ...defaults])].sort());
        expect(set.serverIds).toEqual([...set.serverIds].sort());
      }),
    );
  });
});

describe('one server', () => {
  it('outside a chat session needs the task and the registry', () => {
    const task = taskWith({ defaultServerIds: ['fs'], allowedServerIds: ['fs', 'git', 'gone'] });
    const reasonOf = (id: string, policy = task, view: RegistryView | null = registry) => {
      const decision = decide(aboutServer(view, policy, null, id));
      return decision.allowed ? 'allowed' : decision.reason;
    };
    expect(reasonOf('fs')).toBe('allowed');
    expect(reasonOf('git')).toBe('allowed');
    expect(reasonOf('gone')).toBe('unknown_server');
    expect(reasonOf('fs', { ...task, enabled: false })).toBe('disabled');
    expect(reasonOf('fs', task, null)).toBe('registry_not_ready');
  });

  it('that the task does not allow looks the same whether it exists or not', () => {
    const details = ['shut', 'nope'].map((id) => {
      const decision = decide(aboutServer(registry, taskWith(), null, id));
      return decision.allowed ? '' : decision.reason + decision.detail.replace(id, 'ID');
    });
    expect(details[0]).toBe(details[1]);
    expect(details[0]).toMatch(/^not_allowed/);
  });

  it('without the tags looks the same whether it exists or not, where the task lists none', () => {
    const reasons = ['mail', 'nope'].map((id) => {
      const decision = decide(aboutServer(tagged, byTags('scm'), null, id));
      return decision.allowed ? '' : decision.reason + decision.detail.replace(id, 'ID');
    });
    expect(reasons[0]).toBe(reasons[1]);
    expect(reasons[0]).toMatch(/^not_tagged/);
  });

  it('that is allowed but neither default nor asked for is not used', () => {
    const task = taskWith({ allowedServerIds: ['fs'] });
    expect(decide(aboutServer(registry, task, sessionWith(), 'fs'))).toMatchObject({ reason: 'not_requested' });
  });
});
