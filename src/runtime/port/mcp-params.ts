import type { JsonValue } from '../../base/json.ts';
import type { CheckedParam } from '../abi/chat-params.ts';
import type { ErrnoName } from '../abi/errno.ts';
import {
  initialSession,
  isStringList,
  isToolNaming,
  patternListProblem,
  type SessionPolicy,
  type TaskPolicy,
} from './policy-layers.ts';

export const mcpParamKeys = [
  'mcp.enabled',
  'mcp.server_ids',
  'mcp.tool_allowlist',
  'mcp.tool_denylist',
  'mcp.resources',
  'mcp.resource_allowlist',
  'mcp.resource_denylist',
  'mcp.prompt_allowlist',
  'mcp.prompt_denylist',
  'mcp.tool_naming',
  'mcp.inventory',
] as const;
export type McpParamKey = (typeof mcpParamKeys)[number];

/** Keys with this prefix are reserved for the host. */
const HOST_PARAM_PREFIX = 'mcp.task_';

const MAX_SESSION_SERVER_IDS = 1_024;
const MAX_INVENTORY_CHARS = 16_384;

const inventoryPlaceholders = ['server_names', 'tool_count', 'tools_by_server'] as const;

export type McpParamResult =
  | { readonly ok: true; readonly policy: SessionPolicy }
  | { readonly ok: false; readonly errno: 'EACCES' | 'EINVAL'; readonly message: string };

/** Whether a session parameter is one of these; other keys are forwarded to the model provider. */
export function isMcpParam(key: string): boolean {
  return key.startsWith(HOST_PARAM_PREFIX) || isMcpParamKey(key);
}

/**
 * Applies SET_PARAM of one policy parameter. It replaces the session's previous value and never exceeds the task; on failure
 * the session is unchanged.
 *
 * EACCES: a reserved key, `mcp.enabled` although the task disables MCP, or a server outside the task's allowed set. If the
 * task lists no servers, only the registry knows its set, so servers outside it are dropped later.
 * EINVAL: a value of the wrong type, an invalid pattern, an unknown key.
 */
export function applyMcpParam(session: SessionPolicy, task: TaskPolicy, key: string, value: unknown): McpParamResult {
  if (key.startsWith(HOST_PARAM_PREFIX)) return failed('EACCES', `${key} is set by the host`);
  if (!isMcpParamKey(key)) return failed('EINVAL', `${key} is not a policy parameter`);
  switch (key) {
    case 'mcp.enabled':
      if (typeof value !== 'boolean') return failed('EINVAL', `${key} must be true or false`);
      if (value && !task.enabled) return failed('EACCES', `${key}: the task does not enable MCP`);
      return changed(session, { enabled: value });
    case 'mcp.server_ids':
      return setServerIds(session, task, value);
    case 'mcp.tool_allowlist':
    case 'mcp.tool_denylist':
    case 'mcp.resource_allowlist':
    case 'mcp.resource_denylist':
    case 'mcp.prompt_allowlist':
    case 'mcp.prompt_denylist': {
      const problem = patternListProblem(value);
      if (problem !== null) return failed('EINVAL', `${key} ${problem}`);
      return changed(session, listChange(session, key, Object.freeze([...(value as string[])])));
    }
    case 'mcp.resources':
      if (typeof value !== 'boolean') return failed('EINVAL', `${key} must be true or false`);
      return changed(session, { resourceTools: value });
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

function listChange(
  { resourceLists, promptLists }: SessionPolicy,
  key: Extract<McpParamKey, `${string}list`>,
  patterns: readonly string[],
): Partial<SessionPolicy> {
  switch (key) {
    case 'mcp.tool_allowlist':
      return { toolAllowlist: patterns };
    case 'mcp.tool_denylist':
      return { toolDenylist: patterns };
    case 'mcp.resource_allowlist':
      return { resourceLists: Object.freeze({ ...resourceLists, allow: patterns }) };
    case 'mcp.resource_denylist':
      return { resourceLists: Object.freeze({ ...resourceLists, deny: patterns }) };
    case 'mcp.prompt_allowlist':
      return { promptLists: Object.freeze({ ...promptLists, allow: patterns }) };
    case 'mcp.prompt_denylist':
      return { promptLists: Object.freeze({ ...promptLists, deny: patterns }) };
  }
}

type ParamCheck = (key: string, value: JsonValue) => CheckedParam | ErrnoName | undefined;

/** One check per task, shared by its guests. */
const checks = new WeakMap<TaskPolicy, ParamCheck>();

/** Checks `mcp.` keys on the guest thread, so that SET_PARAM answers synchronously. The host applies them again. */
export function mcpParamCheck(task: TaskPolicy): ParamCheck {
  const check = checks.get(task) ?? newCheck(task);
  checks.set(task, check);
  return check;
}

function newCheck(task: TaskPolicy): ParamCheck {
  const session = initialSession(task); // the permitted values do not depend on earlier ones
  return (key, value) => {
    if (!key.startsWith('mcp.')) return undefined;
    const applied = applyMcpParam(session, task, key, value);
    return applied.ok ? { key, value } : applied.errno;
  };
}

function setServerIds(session: SessionPolicy, task: TaskPolicy, value: unknown): McpParamResult {
  if (!isStringList(value)) return failed('EINVAL', 'mcp.server_ids must be a list of strings');
  if (value.length > MAX_SESSION_SERVER_IDS) {
    return failed('EINVAL', `mcp.server_ids has more than ${MAX_SESSION_SERVER_IDS} entries`);
  }
  const allowed = task.allowedServerIds === null ? null : new Set(task.allowedServerIds);
  if (allowed !== null && value.some((id) => !allowed.has(id))) {
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
      return `has an unknown placeholder; valid placeholders: ${inventoryPlaceholders.join(', ')}`;
    }
  }
  return null;
}

function isMcpParamKey(key: string): key is McpParamKey {
  return mcpParamKeys.some((known) => known === key);
}

function changed(session: SessionPolicy, change: Partial<SessionPolicy>): McpParamResult {
  return { ok: true, policy: Object.freeze({ ...session, ...change }) };
}

function failed(errno: 'EACCES' | 'EINVAL', message: string): McpParamResult {
  return { ok: false, errno, message };
}
