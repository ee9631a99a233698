import fc from 'fast-check';
import type { RegistryView } from '../../../src/agent/policy/decision.ts';
import {
  initialSession,
  noLists,
  noToolSearch,
  type SessionPolicy,
  type TaskPolicy,
} from '../../../src/runtime/port/policy-layers.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';

export function taskWith(fields: Partial<TaskPolicy> = {}): TaskPolicy {
  const { defaultServerIds = [] } = fields;
  return {
    enabled: true,
    defaultServerIds,
    allowedServerIds: defaultServerIds,
    serverTags: null,
    toolAllowlist: null,
    toolDenylist: [],
    resourceLists: noLists,
    promptLists: noLists,
    resourceTools: false,
    toolNaming: 'encoded',
    toolSearch: noToolSearch,
    profile: null,
    ...fields,
  };
}

export function sessionWith(fields: Partial<SessionPolicy> = {}, task: TaskPolicy = taskWith()): SessionPolicy {
  return { ...initialSession(task), ...fields };
}

/** server_id → its allowed_tools */
export function registryWith(servers: Record<string, string[]>, stale = false): RegistryView {
  const records = Object.entries(servers).map(([id, allowed_tools]) => sampleRecord(id, { allowed_tools }));
  return { servers: new Map(records.map((record) => [record.server_id, record])), stale, profiles: null };
}

const ids = ['a', 'b', 'c', 'd'];
export const anyIds = fc.subarray(ids).chain((list) => fc.shuffledSubarray(list, { minLength: list.length }));
export const anyPatterns = fc.array(fc.constantFrom('*', 'read_*', '*_file', 'read_file', 'write_?', 'none'), {
  maxLength: 3,
});
export const anyTool = fc.constantFrom('read_file', 'read_dir', 'write_file', 'write_x', 'other', '');

const anyTags = fc.subarray(['scm', 'search', 'files']);

export const anyRegistry = fc
  .dictionary(fc.constantFrom(...ids), fc.tuple(anyPatterns, anyTags), { maxKeys: 4, noNullPrototype: true })
  .map((servers) => {
    const records = Object.entries(servers).map(([id, [allowed_tools, tags]]) =>
      sampleRecord(id, { allowed_tools, tags }),
    );
    return { servers: new Map(records.map((record) => [record.server_id, record])), stale: false, profiles: null };
  });

/** The default set need not lie within the allowed set: the functions must hold without that. */
export const anyTask = fc.record<TaskPolicy>({
  enabled: fc.boolean(),
  defaultServerIds: fc.option(anyIds, { nil: null }),
  allowedServerIds: fc.option(anyIds, { nil: null }),
  serverTags: fc.option(anyTags, { nil: null }),
  toolAllowlist: fc.option(anyPatterns, { nil: null }),
  toolDenylist: anyPatterns,
  resourceLists: fc.constant(noLists),
  promptLists: fc.constant(noLists),
  resourceTools: fc.constant(false),
  toolNaming: fc.constant('encoded'),
  toolSearch: fc.constant(noToolSearch),
  profile: fc.constant(null),
});

export const anySession = fc.record<SessionPolicy>({
  enabled: fc.boolean(),
  serverIds: fc.option(anyIds, { nil: null }),
  toolAllowlist: fc.option(anyPatterns, { nil: null }),
  toolDenylist: anyPatterns,
  resourceLists: fc.constant(noLists),
  promptLists: fc.constant(noLists),
  resourceTools: fc.constant(false),
  toolNaming: fc.constant('encoded'),
  toolSearch: fc.constant(noToolSearch),
  inventory: fc.constant(false),
});
