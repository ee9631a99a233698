import type { TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import { quoted } from './decision.ts';
import type { LayerCheck, LayerQuestion } from './layer-check.ts';
import { compilePatterns, firstMatching } from './pattern.ts';
import type { RegistryView } from './registry-view.ts';
import { sharedTag } from './tags.ts';

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
