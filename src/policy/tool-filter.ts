import type { SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { allow, type Decision, deny, quoted } from './decision.ts';
import { compilePatterns } from './pattern.ts';

type ToolLists = Pick<TaskPolicy, 'toolAllowlist' | 'toolDenylist'>;

/**
 * Whether the tool `name` (as its server calls it) may be called. Every layer must let it through, and any denylist
 * vetoes. `session` is null for a guest that calls MCP itself, outside a chat session.
 */
export function decideTool(
  name: string,
  record: McpServerRecord,
  task: ToolLists,
  session: Pick<SessionPolicy, 'toolAllowlist' | 'toolDenylist'> | null,
): Decision {
  if (record.allowed_tools.length === 0) return denyAll(record.server_id);
  if (!compilePatterns(record.allowed_tools)(name)) {
    return deny('denied_by_registry', 'registry', `the record's allowed_tools do not match ${quoted(name)}`);
  }
  const taskProblem = refusal(name, task);
  if (taskProblem !== null) return deny('denied_by_task', 'task', `the task's mcp.${taskProblem} ${quoted(name)}`);
  const sessionProblem = session === null ? null : refusal(name, session);
  if (sessionProblem !== null) {
    return deny('denied_by_session', 'session', `the session's mcp.${sessionProblem} ${quoted(name)}`);
  }
  return allow;
}

export function denyAll(serverId: string): Decision & { allowed: false } {
  return deny('deny_all', 'registry', `the record of ${quoted(serverId)} has no allowed_tools, so all are denied`);
}

function refusal(name: string, lists: ToolLists): string | null {
  if (compilePatterns(lists.toolDenylist)(name)) return 'tool_denylist matches';
  if (lists.toolAllowlist !== null && !compilePatterns(lists.toolAllowlist)(name))
    return 'tool_allowlist does not match';
  return null;
}
