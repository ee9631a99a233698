import type { ChatSession } from '../fd/chat-entries.ts';
import type { GuestState } from '../hostcalls/guest-state.ts';
import { initialSession, type SessionPolicy, type TaskPolicy } from '../policy/layers.ts';
import { applySessionParam } from '../policy/session-params.ts';

/** Answers SET_PARAM of the `mcp.` keys at once, on the guest's thread. The host applies them again before it acts. */
export function mcpParamCheck(task: TaskPolicy): GuestState['checkMcpParam'] {
  const policies = new WeakMap<ChatSession, SessionPolicy>();
  return (chat, key, value) => {
    if (!key.startsWith('mcp.')) return undefined;
    const applied = applySessionParam(policies.get(chat) ?? initialSession(task), task, key, value);
    if (!applied.ok) return applied.errno;
    policies.set(chat, applied.policy);
    return { key, value };
  };
}
