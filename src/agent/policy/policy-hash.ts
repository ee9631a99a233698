import { createHash } from 'node:crypto';
import { canonicalJson, type JsonValue } from '../../base/json.ts';
import type { SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import { connectionKey } from '../../server/records/record-kind.ts';
import type { McpServerRecord } from '../../server/records/server.ts';

type ToolLists = Pick<TaskPolicy, 'toolAllowlist' | 'toolDenylist'>;

/**
 * The same for two guests exactly when they see the same tools of this server: what it is connected to and every list
 * that filters its tools. The order and repetition of patterns do not matter.
 */
export function policyHash(
  record: McpServerRecord,
  task: ToolLists & Pick<TaskPolicy, 'profile'>,
  session: Pick<SessionPolicy, 'toolAllowlist' | 'toolDenylist'> | null,
  profile: McpProfile | null,
): string {
  const decides: JsonValue = {
    server: record.server_id,
    connection: connectionKey(record),
    allowed: patternSet(record.allowed_tools),
    pins: record.pins,
    task: listsOf(task),
    profile: selectionFor(record.server_id, profile),
    overrides: selectionFor(record.server_id, task.profile?.overrides ?? null),
    session: session === null ? listsOf({ toolAllowlist: null, toolDenylist: [] }) : listsOf(session),
  };
  return createHash('sha256').update(canonicalJson(decides)).digest('hex');
}

type Selection = Pick<McpProfile, 'tool_allowlist' | 'tool_denylist' | 'allowed_tools'>;

function selectionFor(serverId: string, selection: Selection | null): JsonValue {
  if (selection === null) return null;
  const { tool_allowlist: toolAllowlist, tool_denylist: toolDenylist, allowed_tools: all } = selection;
  const own = Object.hasOwn(all, serverId) ? all[serverId] : undefined;
  return { lists: listsOf({ toolAllowlist, toolDenylist }), own: own === undefined ? null : patternSet(own) };
}

function listsOf(lists: ToolLists): JsonValue {
  return {
    allow: lists.toolAllowlist === null ? null : patternSet(lists.toolAllowlist),
    deny: patternSet(lists.toolDenylist),
  };
}

function patternSet(patterns: readonly string[]): string[] {
  return [...new Set(patterns)].sort();
}
