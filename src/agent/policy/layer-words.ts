import { didYouMean } from '../../base/validation.ts';
import { namespaceOf, type SessionPolicy, type TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { stopTarget } from '../../server/records/stop.ts';
import { type LayerReason, quoted } from './decision.ts';
import { hashDefinition } from './definition-hash.ts';
import { stopText } from './stops.ts';
import type { LayerAnswer, PolicyQuestion } from './walk.ts';

/** An answer of policy for a person: what it says, and what to do where it says no. */
export interface LayerWords {
  readonly text: string;
  /** Null where nothing is denied. */
  readonly fix: string | null;
}

export function wordsFor(answer: LayerAnswer, question: PolicyQuestion): LayerWords {
  if (answer.reason === null) return { text: agreement(answer, question), fix: null };
  return denials[answer.reason](answer, question);
}

type Words = (answer: LayerAnswer, question: PolicyQuestion) => LayerWords;

const denials: Readonly<Record<LayerReason, Words>> = {
  disabled: ({ layer }) =>
    layer === 'task'
      ? { text: 'the task does not enable MCP', fix: 'set "mcp.enabled": true' }
      : { text: 'the session disables MCP', fix: 'do not set mcp.enabled to false in the session' },
  not_allowed: (_, { serverId, task }) => ({
    text: `${quoted(serverId)} is not an allowed server of the task${near(serverId, task.allowedServerIds ?? [])}`,
    fix: `add ${quoted(serverId)} to "mcp.allowed_server_ids" (or, without that key, to "mcp.default_server_ids")`,
  }),
  not_requested: (_, { serverId }) => ({
    text: `${quoted(serverId)} is not in the default set, and the session does not request it`,
    fix: `add ${quoted(serverId)} to "mcp.default_server_ids", or let the guest set mcp.server_ids`,
  }),
  not_tagged: (_, { serverId, task, record }) => ({
    text: `${quoted(serverId)} has none of the tags ${cut(task.serverTags ?? [])}; its tags: ${cut(record?.tags ?? []) || 'none'}`,
    fix: `add one of the tags to ${quoted(serverId)}, or change "mcp.server_tags"`,
  }),
  unknown_profile: (_, { task, view }) => {
    const name = quoted(task.profile?.name ?? '');
    const known = [...(view?.profiles?.byName.keys() ?? [])];
    const has = known.length === 0 ? 'it has no profiles' : `it has ${cut(known)}`;
    return {
      text: `the profile ${name} is not in the registry, so everything is denied; ${has}${near(task.profile?.name ?? '', known)}`,
      fix: `register it (spear profiles apply, or a file in the profiles folder of --mcp-dir), or correct "mcp.profile"`,
    };
  },
  not_in_profile: ({ layer }, { serverId, profile }) =>
    layer === 'task'
      ? {
          text: `the task's mcp.profile_overrides exclude ${quoted(serverId)}`,
          fix: `add ${quoted(serverId)}, or one of its tags, to "mcp.profile_overrides"`,
        }
      : {
          text: `${quoted(serverId)} is not a server of the profile ${quoted(profile?.name ?? '')}`,
          fix: `add ${quoted(serverId)} to server_ids of the profile, or one of its tags to server_tags`,
        },
  denied_by_profile: (answer, question) => {
    const { profile, serverId } = question;
    const own = profile?.allowed_tools[serverId] ?? null;
    return byList(answer, question, answer.rule === 'allowed_tools' ? own : (profile?.tool_allowlist ?? null));
  },
  registry_not_ready: () => ({
    text: 'no registry snapshot has been received',
    fix: 'start the registry, or check --sms, --sms-token or --mcp-dir',
  }),
  stopped: ({ matched }, { view }) => {
    const stop = view?.stops?.get(matched ?? '');
    return {
      text: `${stop === undefined ? 'stopped' : `${stopText(stop)} (${stopTarget(stop)})`}; stopped by ${quoted(stop?.created_by ?? '')}`,
      fix: `lift the stop when its cause is fixed: spear stop --lift ${matched}`,
    };
  },
  stale_registry: () => ({
    text: 'the registry snapshot is too old to be used',
    fix: 'restart the registry, or give this node a valid token; mcp.max_staleness_ms is the maximum age',
  }),
  unknown_server: (_, { serverId, view }) => {
    const known = [...(view?.servers.keys() ?? [])];
    const has = known.length === 0 ? 'it is empty' : `it has ${cut(known)}`;
    const name = quoted(serverId);
    return {
      text: `${name} is not in the registry; ${has}${near(serverId, known)}`,
      fix: `register ${name} (spear servers apply, or a file in --mcp-dir), or correct the id in the task`,
    };
  },
  not_in_namespace: (_, { serverId, record, task }) => ({
    text: `the server is limited to the namespaces ${cut(record?.namespaces ?? []) || '(none)'}, and the task is in ${quoted(namespaceOf(task))}`,
    fix: `add ${quoted(namespaceOf(task))} to namespaces of ${quoted(serverId)}`,
  }),
  deny_all: ({ rule }, { serverId }) => {
    const { what, example } = recordFields[rule] ?? ofTools;
    return {
      text: `the server ${quoted(serverId)} allows no ${what}s`,
      fix: `list the allowed ${what}s in ${rule} of ${quoted(serverId)}, for example ${example}`,
    };
  },
  denied_by_registry: ({ rule }, { serverId, tool, record }) => ({
    text: `no pattern of the server matches: ${cut((recordFields[rule] ?? ofTools).of(record))}`,
    fix: `add ${quoted(tool ?? '')} to ${rule} of ${quoted(serverId)}`,
  }),
  pin_mismatch: (_, { serverId, tool, definition }) => {
    const now = definition === null ? '' : hashDefinition(definition);
    return {
      text: `the server changed the tool after it was pinned: its definition now has sha256 ${now}`,
      fix: `"spear servers pin ${serverId} ${tool ?? ''}" shows the difference from the pinned definition; with --yes it accepts the new one`,
    };
  },
  denied_by_task: (answer, question) => {
    const { task, serverId } = question;
    const overrides = task.profile?.overrides;
    if (answer.rule === 'mcp.profile_overrides.allowed_tools') {
      return byList(answer, question, overrides?.allowed_tools[serverId] ?? null);
    }
    const isOverride = answer.rule.startsWith('mcp.profile_overrides.');
    return byList(answer, question, isOverride ? (overrides?.tool_allowlist ?? null) : allowlistOf(answer.rule, task));
  },
  denied_by_session: (answer, question) => {
    const { session, serverId } = question;
    if (answer.rule !== 'mcp.server_ids') {
      return byList(answer, question, session === null ? null : allowlistOf(answer.rule, session));
    }
    return {
      text: `the session requests other servers: ${session?.serverIds?.join(', ') || 'none'}`,
      fix: `add ${quoted(serverId)} to the session's mcp.server_ids`,
    };
  },
};

/** The lists that a layer has under the key that was looked at. */
function allowlistOf(rule: string, layer: TaskPolicy | SessionPolicy): readonly string[] | null {
  if (rule.startsWith('mcp.resource_')) return layer.resourceLists.allow;
  return rule.startsWith('mcp.prompt_') ? layer.promptLists.allow : layer.toolAllowlist;
}

interface RecordField {
  readonly what: string;
  readonly example: string;
  of(record: McpServerRecord | null): readonly string[];
}

const ofTools: RecordField = {
  what: 'tool',
  example: '["read_*"]',
  of: (record) => record?.allowed_tools ?? [],
};

const recordFields: Readonly<Record<string, RecordField>> = {
  allowed_resources: {
    what: 'resource',
    example: '["file:///data/*"]',
    of: (record) => record?.allowed_resources ?? [],
  },
  allowed_prompts: { what: 'prompt', example: '["review_*"]', of: (record) => record?.allowed_prompts ?? [] },
};

function byList({ matched }: LayerAnswer, { tool }: PolicyQuestion, allowlist: readonly string[] | null): LayerWords {
  if (matched !== null) return { text: `${quoted(matched)} matches`, fix: `remove ${quoted(matched)} from the list` };
  const text = allowlist?.length ? `no pattern matches: ${cut(allowlist)}` : 'the list is empty';
  return { text, fix: `add ${quoted(tool ?? '')} to the list` };
}

/** By the layer and the field that was looked at. */
function agreement({ layer, rule, matched }: LayerAnswer, { serverId, session }: PolicyQuestion): string {
  if (layer === 'profile' && rule === 'allowed_tools')
    return `the profile allows ${quoted(matched ?? '')} of this server`;
  switch (rule) {
    case 'mcp.profile':
      return `the registry has the profile ${quoted(matched ?? '')}`;
    case 'server_ids, server_tags':
      return `the profile has ${quoted(matched ?? '')}`;
    case 'mcp.enabled':
      return `the ${layer} enables MCP`;
    case 'mcp.allowed_server_ids':
      return matched === null ? 'the task lists no servers' : `the task allows ${quoted(serverId)}`;
    case 'mcp.server_tags':
      return `the server has the tag ${quoted(matched ?? '')}`;
    case 'mcp.server_ids':
      return session?.serverIds
        ? `the session requests ${quoted(serverId)}`
        : 'the session requests no servers: the default set applies';
    case 'server_id':
      return `the registry has ${quoted(serverId)}`;
    case 'namespaces':
      return `the server is available to the namespace ${quoted(matched ?? '')}`;
    case 'pins':
      return 'the definition matches the pinned definition';
    case 'allowed_tools':
    case 'allowed_resources':
    case 'allowed_prompts':
      return `the server allows ${quoted(matched ?? '')}`;
    default:
      if (matched !== null) return `${quoted(matched)} matches`;
      return /^mcp\.\w+_denylist$/.test(rule) ? 'no pattern matches' : 'not set';
  }
}

const SHOWN_NAMES = 10;

function cut(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).map(quoted).join(', ');
  return names.length > SHOWN_NAMES ? `${shown}, … (${names.length})` : shown;
}

function near(name: string, known: readonly string[]): string {
  const hint = didYouMean(name, known);
  return hint === undefined ? '' : `; ${hint}`;
}
