import type { RegistryView, SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import { allow, type Decision, deny, type Exclusion, exclusion, quoted } from './decision.ts';
import { denyAll } from './tool-filter.ts';

export interface EffectiveSet {
  /** In the order of their ids, whatever order they were asked for in, so that the same set makes the same prompt. */
  readonly serverIds: readonly string[];
  /** One line for every server that the task's default or the session asked for and did not get. */
  readonly exclusions: readonly Exclusion[];
}

/** platform ∩ task allowed ∩ (session request, else task default). `registry` is null before the first snapshot. */
export function effectiveSet(registry: RegistryView | null, task: TaskPolicy, session: SessionPolicy): EffectiveSet {
  const wanted = new Set([...task.defaultServerIds, ...(session.serverIds ?? [])]);
  const serverIds: string[] = [];
  const exclusions: Exclusion[] = [];
  for (const serverId of [...wanted].sort(byCodeUnit)) {
    const decision = decideServer(serverId, registry, task, session);
    if (decision.allowed) serverIds.push(serverId);
    else exclusions.push(exclusion(serverId, null, decision));
  }
  return { serverIds, exclusions };
}

/**
 * Whether one server may be used now: asked at injection, when a guest opens it and again at every dispatch. `session`
 * is null for a guest that calls MCP itself. The task is asked before the registry, so that a guest learns nothing
 * about servers that are not its own.
 */
export function decideServer(
  serverId: string,
  registry: RegistryView | null,
  task: TaskPolicy,
  session: SessionPolicy | null,
): Decision {
  if (!task.enabled) return deny('disabled', 'task', 'the task does not enable MCP (mcp.enabled)');
  if (!task.allowedServerIds.includes(serverId)) {
    return deny('not_allowed', 'task', `${quoted(serverId)} is not in the task's mcp.allowed_server_ids`);
  }
  if (session !== null) {
    if (!session.enabled) return deny('disabled', 'session', 'the session turned MCP off (mcp.enabled)');
    if (session.serverIds !== null && !session.serverIds.includes(serverId)) {
      return deny('denied_by_session', 'session', `${quoted(serverId)} is not in the session's mcp.server_ids`);
    }
    if (session.serverIds === null && !task.defaultServerIds.includes(serverId)) {
      return deny(
        'not_requested',
        'session',
        `${quoted(serverId)} is not in the default set and the session did not ask for it`,
      );
    }
  }
  if (registry === null) return deny('registry_not_ready', 'node', 'no registry snapshot has been received yet');
  if (registry.stale) return deny('stale_registry', 'node', 'the registry snapshot is older than max_staleness_ms');
  const record = registry.servers.get(serverId);
  if (record === undefined) return deny('unknown_server', 'registry', `${quoted(serverId)} is not in the registry`);
  return record.allowed_tools.length === 0 ? denyAll(serverId) : allow;
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
