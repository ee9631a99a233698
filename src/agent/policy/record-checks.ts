import { isJsonObject, type JsonValue } from '../../base/json.ts';
import { textProblem } from '../../base/text.ts';
import { didYouMean } from '../../base/validation.ts';
import {
  isStringList,
  type NameLists,
  namespaceOf,
  noOverrides,
  type ProfileOverrides,
  patternListProblem,
  type SessionPolicy,
  type TaskPolicy,
} from '../../runtime/port/policy-layers.ts';
import { isServerId, recordLimits, serverIdRule } from '../../server/records/field-rules.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { LayerCheck, LayerQuestion } from './decision.ts';
import { type LayerReason, quoted, type RegistryView, sharedTag } from './decision.ts';
import { hashDefinition, type ToolDefinition } from './definition-hash.ts';
import { compilePatterns, firstMatching, matching, type NamedKind } from './pattern.ts';

/** What the record itself says: which namespaces, which tools, and which definitions of them. */

const EVERY_NAMESPACE = '*';

export const recordNamespaces: LayerCheck = {
  layer: 'registry',
  rule: 'namespaces',
  denies: ({ record, task }) => {
    if (record === null || record.namespaces.includes(EVERY_NAMESPACE)) return null;
    return compilePatterns(record.namespaces)(namespaceOf(task)) ? null : 'not_in_namespace';
  },
  detail: ({ serverId, task }) =>
    `the namespaces of the server ${quoted(serverId)} do not match ${quoted(namespaceOf(task))}`,
  matched: ({ record, task }) =>
    record === null || record.namespaces.includes(EVERY_NAMESPACE)
      ? undefined
      : firstMatching(record.namespaces, namespaceOf(task)),
};

export const recordTools: LayerCheck = {
  layer: 'registry',
  rule: 'allowed_tools',
  denies: ({ record, tool }) => {
    if (record === null) return null;
    if (record.allowed_tools.length === 0) return 'deny_all';
    return tool === null || compilePatterns(record.allowed_tools)(tool) ? null : 'denied_by_registry';
  },
  detail: ({ serverId, record, tool }) =>
    record?.allowed_tools.length === 0
      ? `the server ${quoted(serverId)} has no allowed_tools, so all are denied`
      : `the server's allowed_tools do not match ${quoted(tool ?? '')}`,
  matched: ({ record, tool }) =>
    record === null || tool === null ? undefined : firstMatching(record.allowed_tools, tool),
};

/** Silent where the definition is not known: it is asked again with it before a call is sent. */
export const recordPins: LayerCheck = {
  layer: 'registry',
  rule: 'pins',
  denies: ({ record, definition }) => {
    return definition !== null && isChanged(record, definition) ? 'pin_mismatch' : null;
  },
  detail: ({ definition }) =>
    `the definition of ${quoted(definition?.name ?? '')} does not match the pinned definition: review it; ` +
    `its sha256 is now ${definition === null ? '' : hashDefinition(definition)}`,
  matched: ({ record, definition }) => (definition === null ? null : pinOf(record, definition.name)) ?? undefined,
};

/** Why tools of the server are denied whatever the task: their definitions changed after they were pinned. Null: none did. */
export function pinProblem(record: McpServerRecord, tools: readonly ToolDefinition[]): string | null {
  const changed = tools.filter((definition) => isChanged(record, definition));
  if (changed.length === 0) return null;
  const [first] = changed;
  const others = changed.length === 1 ? '' : ` and ${changed.length - 1} more`;
  return `${quoted(first?.name ?? '')}${others} changed after being pinned: review with "spear servers pin ${record.server_id}"`;
}

function isChanged(record: McpServerRecord | null, definition: ToolDefinition): boolean {
  const pin = pinOf(record, definition.name);
  return pin !== null && pin !== hashDefinition(definition);
}

function pinOf(record: McpServerRecord | null, tool: string): string | null {
  if (record === null || !Object.hasOwn(record.pins, tool)) return null;
  return record.pins[tool] ?? null;
}

/** The profile that a task names, as the registry has it now; null where there is none. */
export function profileOf(view: RegistryView | null, { profile }: TaskPolicy): McpProfile | null {
  return profile === null ? null : (view?.profiles?.byName.get(profile.name) ?? null);
}

/** A profile that is not there denies everything: what it would have narrowed is not known. */
/** Frozen, so that it is compiled once: policy is asked at every call. */
const nothing: readonly string[] = Object.freeze([]);

export const profileKnown: LayerCheck = {
  layer: 'profile',
  rule: 'mcp.profile',
  denies: ({ task, view, profile }) => {
    if (task.profile === null || view === null) return null;
    if (view.profiles === null) return 'registry_not_ready';
    if (view.profiles.stale) return 'stale_registry';
    return profile === null ? 'unknown_profile' : null;
  },
  detail: ({ task, view }) => {
    const name = quoted(task.profile?.name ?? '');
    if (view?.profiles === null) return `no profiles were received from the registry, and the task needs ${name}`;
    if (view?.profiles.stale) return `the profiles of the registry are too old to be used, and the task needs ${name}`;
    return `the task's mcp.profile ${name} is not in the registry, so everything is denied`;
  },
  matched: ({ profile }) => profile?.name,
};

/** Whether a server belongs to a profile: by its id, or by a tag of its record. */
const profileServers: LayerCheck = {
  layer: 'profile',
  rule: 'server_ids, server_tags',
  denies: (question) => (question.profile === null || whyInProfile(question) !== null ? null : 'not_in_profile'),
  detail: ({ serverId, profile }) =>
    `${quoted(serverId)} is not a server of the profile ${quoted(profile?.name ?? '')}`,
  matched: (question) => (question.profile === null ? undefined : whyInProfile(question)),
};

/** The id or the tag that brings a server into the profile. */
function whyInProfile({ profile, serverId, record }: Pick<LayerQuestion, 'profile' | 'serverId' | 'record'>) {
  if (profile?.server_ids.includes(serverId)) return serverId;
  return record === null ? null : sharedTag(profile?.server_tags ?? [], record);
}

const overriddenServers: LayerCheck = {
  layer: 'task',
  rule: 'mcp.profile_overrides',
  denies: ({ task, serverId, record, view }) => {
    if (task.profile === null || view === null) return null;
    const { server_ids: ids, server_tags: tags } = task.profile.overrides;
    if (ids?.includes(serverId) === false) return 'not_in_profile';
    // A server that is not there has no tags; the registry says so where the task names it.
    if (tags === null || (record === null && (ids ?? task.allowedServerIds) !== null)) return null;
    return record !== null && sharedTag(tags, record) !== null ? null : 'not_in_profile';
  },
  detail: ({ serverId }) => `${quoted(serverId)} is excluded by the task's mcp.profile_overrides`,
  matched: ({ task, serverId }) =>
    task.profile?.overrides.server_ids == null
      ? undefined
      : task.profile.overrides.server_ids.includes(serverId)
        ? serverId
        : null,
};

/** What a profile and a task's overrides say of tools has the same fields. */
type ToolSelection = Pick<McpProfile, 'tool_allowlist' | 'tool_denylist' | 'allowed_tools'>;

function selectionChecks(
  layer: 'profile' | 'task',
  prefix: string,
  of: (question: LayerQuestion) => ToolSelection | null,
): readonly LayerCheck[] {
  const reason = layer === 'profile' ? 'denied_by_profile' : 'denied_by_task';
  const named = ({ profile }: LayerQuestion) =>
    layer === 'profile' ? `of the profile ${quoted(profile?.name ?? '')}` : `of the task's mcp.profile_overrides`;
  const ownTools = (question: LayerQuestion) => {
    const all = of(question)?.allowed_tools ?? {};
    return Object.hasOwn(all, question.serverId) ? all[question.serverId] : undefined;
  };
  const allows = (list: readonly string[] | null | undefined, tool: string) =>
    list === null || list === undefined || compilePatterns(list)(tool);
  const match = (list: readonly string[] | null | undefined, tool: string) =>
    list === null || list === undefined ? undefined : firstMatching(list, tool);
  return [
    {
      layer,
      rule: `${prefix}tool_denylist`,
      denies: (question) =>
        compilePatterns(of(question)?.tool_denylist ?? nothing)(question.tool ?? '') ? reason : null,
      detail: (question) => `the tool_denylist ${named(question)} matches ${quoted(question.tool ?? '')}`,
      matched: (question) =>
        of(question)?.tool_denylist.length ? match(of(question)?.tool_denylist, question.tool ?? '') : undefined,
    },
    {
      layer,
      rule: `${prefix}tool_allowlist`,
      denies: (question) => (allows(of(question)?.tool_allowlist, question.tool ?? '') ? null : reason),
      detail: (question) => `the tool_allowlist ${named(question)} does not match ${quoted(question.tool ?? '')}`,
      matched: (question) => match(of(question)?.tool_allowlist, question.tool ?? ''),
    },
    {
      layer,
      rule: `${prefix}allowed_tools`,
      denies: (question) => (allows(ownTools(question), question.tool ?? '') ? null : reason),
      detail: (question) =>
        `the allowed_tools ${named(question)} for ${quoted(question.serverId)} do not match ${quoted(question.tool ?? '')}`,
      matched: (question) => match(ownTools(question), question.tool ?? ''),
    },
  ];
}

/** Whether a server may be used, as far as the profile goes. */
export const profilePlaceChecks: readonly LayerCheck[] = [profileKnown, profileServers, overriddenServers];

/** Whether one of its tools may be called, as far as the profile goes. */
export const profileToolChecks: readonly LayerCheck[] = [
  ...selectionChecks('profile', '', ({ profile }) => profile),
  ...selectionChecks('task', 'mcp.profile_overrides.', ({ task }) => task.profile?.overrides ?? null),
];

/** A field and what is wrong with it. */
type Problem = string;

const fields = Object.keys(noOverrides);

/** `mcp.profile_overrides` of a task; a field that is not known could have been meant to narrow, so it is refused. */
export function readProfileOverrides(value: JsonValue): ProfileOverrides | Problem {
  if (!isJsonObject(value)) return `must be a table with the keys ${fields.join(', ')}`;
  for (const [name, field] of Object.entries(value)) {
    const problem = fieldProblem(name, field);
    if (problem !== null) return `${name} ${problem}`;
  }
  return Object.freeze({ ...noOverrides, ...(value as Partial<ProfileOverrides>) });
}

function fieldProblem(name: string, value: JsonValue): Problem | null {
  switch (name) {
    case 'server_ids':
      return idsProblem(value);
    case 'server_tags':
      return tagsProblem(value);
    case 'tool_allowlist':
    case 'tool_denylist':
      return patternListProblem(value);
    case 'allowed_tools':
      return toolsProblem(value);
    default:
      return `is not a valid field; ${didYouMean(name, fields) ?? `valid fields: ${fields.join(', ')}`}`;
  }
}

function idsProblem(value: JsonValue): Problem | null {
  if (!isStringList(value)) return 'must be a list of strings';
  const odd = value.findIndex((id) => !isServerId(id));
  return odd === -1 ? null : `[${odd}] is not a server id: it must be ${serverIdRule}`;
}

export function tagsProblem(value: unknown): Problem | null {
  if (!isStringList(value)) return 'must be a list of strings';
  for (const [index, tag] of value.entries()) {
    const problem = textProblem(tag, recordLimits.tagChars);
    if (problem !== null) return `[${index}] ${problem}`;
  }
  return null;
}

function toolsProblem(value: JsonValue): Problem | null {
  if (!isJsonObject(value)) return 'must be a table of server ids and lists of patterns';
  for (const [id, patterns] of Object.entries(value)) {
    const problem = isServerId(id) ? patternListProblem(patterns) : `is not a server id: it must be ${serverIdRule}`;
    if (problem !== null) return `[${JSON.stringify(id)}] ${problem}`;
  }
  return null;
}

/** Where each layer speaks of resources, and where of prompts. */
interface Places {
  readonly field: 'allowed_resources' | 'allowed_prompts';
  readonly lists: 'resourceLists' | 'promptLists';
  readonly key: 'mcp.resource' | 'mcp.prompt';
}

const ofResources: Places = { field: 'allowed_resources', lists: 'resourceLists', key: 'mcp.resource' };
const ofPrompts: Places = { field: 'allowed_prompts', lists: 'promptLists', key: 'mcp.prompt' };

function recordCheck(kind: NamedKind, { field }: Places): LayerCheck {
  return {
    layer: 'registry',
    rule: field,
    denies: ({ record, tool }) => {
      if (record === null) return null;
      if (record[field].length === 0) return 'deny_all';
      return matching[kind].allows(record[field], tool ?? '') ? null : 'denied_by_registry';
    },
    detail: ({ serverId, record, tool }) =>
      record?.[field].length === 0
        ? `the server ${quoted(serverId)} has no ${field}, so all are denied`
        : `the server's ${field} do not match ${quoted(tool ?? '')}`,
    matched: ({ record, tool }) => (record === null ? undefined : matching[kind].first(record[field], tool ?? '')),
  };
}

/** Any denylist vetoes, every allowlist must let the name through. */
function listChecks(
  kind: NamedKind,
  { lists, key }: Places,
  layer: 'task' | 'session',
  reason: LayerReason,
): readonly LayerCheck[] {
  const of = (question: { readonly task: TaskPolicy; readonly session: SessionPolicy | null }): NameLists | null =>
    question[layer]?.[lists] ?? null;
  return [
    {
      layer,
      rule: `${key}_denylist`,
      denies: (question) => (matching[kind].denies(of(question)?.deny ?? [], question.tool ?? '') ? reason : null),
      detail: ({ tool }) => `the ${layer}'s ${key}_denylist matches ${quoted(tool ?? '')}`,
      matched: (question) =>
        of(question) === null ? undefined : matching[kind].first(of(question)?.deny ?? [], question.tool ?? ''),
    },
    {
      layer,
      rule: `${key}_allowlist`,
      denies: (question) => {
        const allow = of(question)?.allow ?? null;
        return allow === null || matching[kind].allows(allow, question.tool ?? '') ? null : reason;
      },
      detail: ({ tool }) => `the ${layer}'s ${key}_allowlist does not match ${quoted(tool ?? '')}`,
      matched: (question) =>
        of(question) === null ? undefined : matching[kind].first(of(question)?.allow ?? [], question.tool ?? ''),
    },
  ];
}

const checksOf = (kind: NamedKind, places: Places): readonly LayerCheck[] => [
  recordCheck(kind, places),
  ...listChecks(kind, places, 'task', 'denied_by_task'),
  ...listChecks(kind, places, 'session', 'denied_by_session'),
];

/** Whether a resource of a server that may be used may be read, whether a template stands for one, whether a prompt may be got. */
export const resourceChecks = checksOf('resource', ofResources);
export const templateChecks = checksOf('template', ofResources);
export const promptChecks = checksOf('prompt', ofPrompts);

/** Whether a record allows anything at all: a server that has nothing for anybody may not be used. */
export const recordAllowsAnything: LayerCheck = {
  layer: 'registry',
  rule: 'allowed_tools',
  denies: ({ record }) => (record === null || allowsAnything(record) ? null : 'deny_all'),
  detail: ({ serverId }) => `the server ${quoted(serverId)} has no allowed_tools, so all are denied`,
  matched: () => undefined,
};

function allowsAnything({ allowed_tools, allowed_resources, allowed_prompts }: McpServerRecord): boolean {
  return allowed_tools.length > 0 || allowed_resources.length > 0 || allowed_prompts.length > 0;
}
