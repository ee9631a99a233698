import type { GuestState } from '../hostcalls/guest-state.ts';
import { applySessionParam } from '../protocol/mcp-params.ts';
import { initialSession, type TaskPolicy } from '../protocol/policy-layers.ts';

/** Answers SET_PARAM of the `mcp.` keys at once, on the guest's thread. The host applies them again before it acts. */
export function mcpParamCheck(task: TaskPolicy): GuestState['checkMcpParam'] {
  const session = initialSession(task); // what a session may set does not depend on what it has set
  return (key, value) => {
    if (!key.startsWith('mcp.')) return undefined;
    const applied = applySessionParam(session, task, key, value);
    return applied.ok ? { key, value } : applied.errno;
  };
}
