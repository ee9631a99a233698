import { isStringList, patternListProblem } from './pattern-list.ts';
import { isToolNaming, type SessionPolicy, type TaskPolicy } from './policy-layers.ts';

export const sessionParamKeys = [
  'mcp.enabled',
  'mcp.server_ids',
  'mcp.tool_allowlist',
  'mcp.tool_denylist',
  'mcp.tool_naming',
  'mcp.inventory',
] as const;
export type SessionParamKey = (typeof sessionParamKeys)[number];

/** Keys under this prefix belong to the host. */
export const HOST_PARAM_PREFIX = 'mcp.task_';

export const MAX_SESSION_SERVER_IDS = 1_024;
export const MAX_INVENTORY_CHARS = 16_384;

export const inventoryPlaceholders = ['server_names', 'tool_count', 'tools_by_server'] as const;

export type SessionParamResult =
  | { readonly ok: true; readonly policy: SessionPolicy }
  | { readonly ok: false; readonly errno: 'EACCES' | 'EINVAL'; readonly message: string };

/** Whether a session parameter is policy; every other key goes to the model's provider as it is. */
export function isPolicyParam(key: string): boolean {
  return key.startsWith(HOST_PARAM_PREFIX) || isSessionParamKey(key);
}

/**
 * SET_PARAM of one policy parameter by the guest. It replaces what the session said before and can never reach beyond
 * the task; on failure the session keeps what it had.
 *
 * EACCES: a key of the host, `mcp.enabled` where the task has MCP off, a server outside the task's allowed set.
 * EINVAL: a value of the wrong type, a pattern that no list may hold, an unknown key.
 */
export function applySessionParam(
  session: SessionPolicy,
  task: TaskPolicy,
  key: string,
  value: unknown,
): SessionParamResult {
  if (key.startsWith(HOST_PARAM_PREFIX)) return failed('EACCES', `${key} is set by the host`);
  if (!isSessionParamKey(key)) return failed('EINVAL', `${key} is not a policy parameter`);
  switch (key) {
    case 'mcp.enabled':
      if (typeof value !== 'boolean') return failed('EINVAL', `${key} must be true or false`);
      if (value && !task.enabled) return failed('EACCES', `${key}: the task has MCP off`);
      return changed(session, { enabled: value });
    case 'mcp.server_ids':
      return setServerIds(session, task, value);
    case 'mcp.tool_allowlist':
    case 'mcp.tool_denylist': {
      const problem = patternListProblem(value);
      if (problem !== null) return failed('EINVAL', `${key} ${problem}`);
      const patterns = Object.freeze([...(value as string[])]);
      return changed(session, key === 'mcp.tool_allowlist' ? { toolAllowlist: patterns } : { toolDenylist: patterns });
    }
    case 'mcp.tool_naming':
      if (!isToolNaming(value)) return failed('EINVAL', `${key} must be "encoded" or "readable"`);
      return changed(session, { toolNaming: value });
    case 'mcp.inventory': {
      const problem = inventoryProblem(value);
      if (problem !== null) return failed('EINVAL', `${key} ${problem}`);
      return changed(session, { inventory: value as boolean | string });
    }
  }
}

function setServerIds(session: SessionPolicy, task: TaskPolicy, value: unknown): SessionParamResult {
  if (!isStringList(value)) return failed('EINVAL', 'mcp.server_ids must be a list of strings');
  if (value.length > MAX_SESSION_SERVER_IDS) {
    return failed('EINVAL', `mcp.server_ids has more than ${MAX_SESSION_SERVER_IDS} entries`);
  }
  const allowed = new Set(task.allowedServerIds);
  if (value.some((id) => !allowed.has(id))) {
    return failed('EACCES', 'mcp.server_ids names a server outside the allowed set of the task');
  }
  return changed(session, { serverIds: Object.freeze([...new Set(value)]) });
}

function inventoryProblem(value: unknown): string | null {
  if (typeof value === 'boolean') return null;
  if (typeof value !== 'string') return 'must be true, false or a template';
  if (value.length > MAX_INVENTORY_CHARS) return `has more than ${MAX_INVENTORY_CHARS} characters`;
  for (const match of value.matchAll(/\$\{([^}]*)\}?/g)) {
    if (!match[0].endsWith('}') || !inventoryPlaceholders.some((name) => name === match[1])) {
      return `has an unknown placeholder; known are ${inventoryPlaceholders.join(', ')}`;
    }
  }
  return null;
}

function isSessionParamKey(key: string): key is SessionParamKey {
  return sessionParamKeys.some((known) => known === key);
}

function changed(session: SessionPolicy, change: Partial<SessionPolicy>): SessionParamResult {
  return { ok: true, policy: Object.freeze({ ...session, ...change }) };
}

function failed(errno: 'EACCES' | 'EINVAL', message: string): SessionParamResult {
  return { ok: false, errno, message };
}
