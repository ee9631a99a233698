import type { RegistryView, SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type LayerReason, type PolicyLayer, quoted } from './decision.ts';
import { compilePattern, compilePatterns } from './pattern.ts';

/** What every layer is asked. */
export interface LayerQuestion {
  readonly serverId: string;
  /** As the server calls it; null where the question is about the server. */
  readonly tool: string | null;
  /** Null before the first snapshot. */
  readonly view: RegistryView | null;
  /** Null where the registry does not have the server. */
  readonly record: McpServerRecord | null;
  readonly task: TaskPolicy;
  /** Null for a guest that calls MCP itself, outside a chat session. */
  readonly session: SessionPolicy | null;
}

/** One place where a layer can say no. Asking makes no text: it happens at every call, and most are let through. */
export interface LayerCheck {
  readonly layer: PolicyLayer;
  /** The field or key that is looked at. */
  readonly rule: string;
  /** Why this layer says no; null if it does not. */
  readonly denies: (question: LayerQuestion) => LayerReason | null;
  /** A denial as a sentence for the log and the trail; never holds a secret. */
  readonly detail: (question: LayerQuestion) => string;
  /** The pattern or id that decides; null: none does; undefined: the layer has nothing to say here. */
  readonly matched: (question: LayerQuestion) => string | null | undefined;
}

const taskEnabled: LayerCheck = {
  layer: 'task',
  rule: 'mcp.enabled',
  denies: ({ task }) => (task.enabled ? null : 'disabled'),
  detail: () => 'the task does not enable MCP (mcp.enabled)',
  matched: ({ task }) => (task.enabled ? 'true' : null),
};

const taskServers: LayerCheck = {
  layer: 'task',
  rule: 'mcp.allowed_server_ids',
  denies: ({ task, serverId }) => (task.allowedServerIds.includes(serverId) ? null : 'not_allowed'),
  detail: ({ serverId }) => `${quoted(serverId)} is not in the task's mcp.allowed_server_ids`,
  matched: ({ task, serverId }) => (task.allowedServerIds.includes(serverId) ? serverId : null),
};

const sessionEnabled: LayerCheck = {
  layer: 'session',
  rule: 'mcp.enabled',
  denies: ({ session }) => (session === null || session.enabled ? null : 'disabled'),
  detail: () => 'the session turned MCP off (mcp.enabled)',
  matched: () => undefined,
};

const sessionServers: LayerCheck = {
  layer: 'session',
  rule: 'mcp.server_ids',
  denies: ({ session, task, serverId }) => {
    if (session === null || !session.enabled) return null;
    if (session.serverIds !== null) return session.serverIds.includes(serverId) ? null : 'denied_by_session';
    return task.defaultServerIds.includes(serverId) ? null : 'not_requested';
  },
  detail: ({ session, serverId }) =>
    session?.serverIds
      ? `${quoted(serverId)} is not in the session's mcp.server_ids`
      : `${quoted(serverId)} is not in the default set and the session did not ask for it`,
  matched: ({ session, task, serverId }) => {
    if (!session?.enabled) return undefined;
    return (session.serverIds ?? task.defaultServerIds).includes(serverId) ? serverId : null;
  },
};

const registryReady: LayerCheck = {
  layer: 'node',
  rule: 'registry',
  denies: ({ view }) => (view === null ? 'registry_not_ready' : null),
  detail: () => 'no registry snapshot has been received yet',
  matched: () => undefined,
};

const registryFresh: LayerCheck = {
  layer: 'node',
  rule: 'mcp.max_staleness_ms',
  denies: ({ view }) => (view?.stale ? 'stale_registry' : null),
  detail: () => 'the registry snapshot is older than max_staleness_ms, or the registry refuses this node',
  matched: () => undefined,
};

const registryServers: LayerCheck = {
  layer: 'registry',
  rule: 'server_id',
  denies: ({ view, record }) => (view !== null && record === null ? 'unknown_server' : null),
  detail: ({ serverId }) => `${quoted(serverId)} is not in the registry`,
  matched: ({ record, serverId }) => (record === null ? undefined : serverId),
};

const recordTools: LayerCheck = {
  layer: 'registry',
  rule: 'allowed_tools',
  denies: ({ record, tool }) => {
    if (record === null) return null;
    if (record.allowed_tools.length === 0) return 'deny_all';
    return tool === null || compilePatterns(record.allowed_tools)(tool) ? null : 'denied_by_registry';
  },
  detail: ({ serverId, record, tool }) =>
    record?.allowed_tools.length === 0
      ? `the record of ${quoted(serverId)} has no allowed_tools, so all are denied`
      : `the record's allowed_tools do not match ${quoted(tool ?? '')}`,
  matched: ({ record, tool }) =>
    record === null || tool === null ? undefined : firstMatching(record.allowed_tools, tool),
};

/** Any denylist vetoes, every allowlist must let the tool through. */
function toolLists(layer: 'task' | 'session', reason: LayerReason): readonly LayerCheck[] {
  return [
    {
      layer,
      rule: 'mcp.tool_denylist',
      denies: ({ [layer]: lists, tool }) =>
        lists !== null && compilePatterns(lists.toolDenylist)(tool ?? '') ? reason : null,
      detail: ({ tool }) => `the ${layer}'s mcp.tool_denylist matches ${quoted(tool ?? '')}`,
      matched: ({ [layer]: lists, tool }) =>
        lists === null ? undefined : firstMatching(lists.toolDenylist, tool ?? ''),
    },
    {
      layer,
      rule: 'mcp.tool_allowlist',
      denies: ({ [layer]: lists, tool }) =>
        !lists?.toolAllowlist || compilePatterns(lists.toolAllowlist)(tool ?? '') ? null : reason,
      detail: ({ tool }) => `the ${layer}'s mcp.tool_allowlist does not match ${quoted(tool ?? '')}`,
      matched: ({ [layer]: lists, tool }) =>
        lists === null ? undefined : firstMatching(lists.toolAllowlist ?? [], tool ?? ''),
    },
  ];
}

function firstMatching(patterns: readonly string[], tool: string): string | null {
  return patterns.find((pattern) => compilePattern(pattern)(tool)) ?? null;
}

/** The task is asked before the registry, so that a guest learns nothing about servers that are not its own. */
const placeChecks = [
  taskEnabled,
  taskServers,
  sessionEnabled,
  sessionServers,
  registryReady,
  registryFresh,
  registryServers,
];

/** Whether a tool of a server that may be used may be called. */
export const toolChecks: readonly LayerCheck[] = [
  recordTools,
  ...toolLists('task', 'denied_by_task'),
  ...toolLists('session', 'denied_by_session'),
];

/** Whether a server may be used at all: one that allows no tool may not. */
export const serverChecks: readonly LayerCheck[] = [...placeChecks, recordTools];

/** Both, for one call. */
export const callChecks: readonly LayerCheck[] = [...placeChecks, ...toolChecks];
