import { type CallKind, namespaceOf, type TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { StopRecord } from '../../server/records/stop.ts';
import type { LayerCheck, LayerQuestion } from './decision.ts';
import { type LayerReason, quoted, sharedTag } from './decision.ts';
import { compilePatterns, firstMatching, type NamedKind } from './pattern.ts';
import {
  profileKnown,
  profilePlaceChecks,
  profileToolChecks,
  promptChecks,
  recordAllowsAnything,
  recordNamespaces,
  recordPins,
  recordTools,
  resourceChecks,
  templateChecks,
} from './record-checks.ts';
import { stopOfCall, stopText } from './stops.ts';

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
  denies: ({ task, serverId }) =>
    (task.allowedServerIds?.includes(serverId) ?? choosesServers(task)) ? null : 'not_allowed',
  detail: ({ serverId }) => `${quoted(serverId)} is not in the task's mcp.allowed_server_ids`,
  matched: ({ task, serverId }) => (task.allowedServerIds?.includes(serverId) ? serverId : null),
};

const taskTags: LayerCheck = {
  layer: 'task',
  rule: 'mcp.server_tags',
  denies: ({ task, record, view }) => {
    if (task.serverTags === null || view === null) return null;
    // A server that the task does not name is told apart from none only by its tags: a guest learns nothing of others.
    if (record === null) return task.allowedServerIds === null ? 'not_tagged' : null;
    return sharedTag(task.serverTags, record) === null ? 'not_tagged' : null;
  },
  detail: ({ serverId }) => `${quoted(serverId)} has none of the tags in the task's mcp.server_tags`,
  matched: ({ task, record }) =>
    task.serverTags === null || record === null ? undefined : sharedTag(task.serverTags, record),
};

const sessionEnabled: LayerCheck = {
  layer: 'session',
  rule: 'mcp.enabled',
  denies: ({ session }) => (session === null || session.enabled ? null : 'disabled'),
  detail: () => 'the session disabled MCP (mcp.enabled)',
  matched: () => undefined,
};

const sessionServers: LayerCheck = {
  layer: 'session',
  rule: 'mcp.server_ids',
  denies: ({ session, task, serverId }) => {
    if (session === null || !session.enabled) return null;
    if (session.serverIds !== null) return session.serverIds.includes(serverId) ? null : 'denied_by_session';
    return task.defaultServerIds?.includes(serverId) === false ? 'not_requested' : null;
  },
  detail: ({ session, serverId }) =>
    session?.serverIds
      ? `${quoted(serverId)} is not in the session's mcp.server_ids`
      : `${quoted(serverId)} is not in the default set and the session did not request it`,
  matched: ({ session, task, serverId }) => {
    if (!session?.enabled) return undefined;
    return (session.serverIds ?? task.defaultServerIds)?.includes(serverId) ? serverId : null;
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
  detail: () => 'the registry snapshot is older than max_staleness_ms, or the registry rejects this node',
  matched: () => undefined,
};

/** Before all that narrows: whatever else is allowed, a stop refuses it. */
const stopped: LayerCheck = {
  layer: 'registry',
  rule: 'stop',
  denies: (question) => (stopOf(question) === null ? null : 'stopped'),
  detail: (question) => {
    const stop = stopOf(question);
    return stop === null ? 'stopped' : `${stopText(stop)} (stop ${stop.stop_id})`;
  },
  matched: (question) => stopOf(question)?.stop_id,
};

function stopOf({ view, task, serverId }: LayerQuestion): StopRecord | null {
  if (view?.stops === undefined || view.stops.size === 0) return null;
  return stopOfCall(view.stops, namespaceOf(task), task.name ?? null, serverId);
}

const registryServers: LayerCheck = {
  layer: 'registry',
  rule: 'server_id',
  denies: ({ view, record }) => (view !== null && record === null ? 'unknown_server' : null),
  detail: ({ serverId }) => `${quoted(serverId)} is not in the registry`,
  matched: ({ record, serverId }) => (record === null ? undefined : serverId),
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

/** The task is asked before the registry, so that a guest learns nothing about servers that are not its own. */
const placeChecks = [
  taskEnabled,
  taskServers,
  sessionEnabled,
  sessionServers,
  registryReady,
  registryFresh,
  stopped,
  ...profilePlaceChecks,
  taskTags,
  registryServers,
  recordNamespaces,
];

/** What can stand against every server at once. */
export const choiceChecks: readonly LayerCheck[] = [
  taskEnabled,
  sessionEnabled,
  registryReady,
  registryFresh,
  stopped,
  profileKnown,
];

/** Whether anything but a list of ids says which servers the task means. */
function choosesServers(task: TaskPolicy): boolean {
  return task.profile !== null || task.serverTags !== null;
}

/** What says which servers a task means that lists none. */
export const selectionOfServers: readonly LayerCheck[] = [...profilePlaceChecks, taskTags];

/** Whether a tool of a server that may be used may be called. */
export const toolChecks: readonly LayerCheck[] = [
  recordTools,
  recordPins,
  ...profileToolChecks,
  ...toolLists('task', 'denied_by_task'),
  ...toolLists('session', 'denied_by_session'),
];

/** The same of everything that has a name. */
export const namedChecks: Readonly<Record<NamedKind, readonly LayerCheck[]>> = {
  tool: toolChecks,
  resource: resourceChecks,
  template: templateChecks,
  prompt: promptChecks,
};

/** Whether a server may be used at all: one that allows nothing may not. */
export const serverChecks: readonly LayerCheck[] = [...placeChecks, recordAllowsAnything];

/** Both, for one call. */
export const callChecks: Readonly<Record<CallKind, readonly LayerCheck[]>> = {
  tool: [...placeChecks, ...toolChecks],
  resource: [...placeChecks, ...resourceChecks],
  prompt: [...placeChecks, ...promptChecks],
};
