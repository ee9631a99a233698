import type { ChatResponse, ToolRequest } from '../descriptors/chat-entries.ts';
import type { GuestState } from './guest-state.ts';

/** Callbacks that may stand on top of each other. */
export const MAX_DEPTH = 8;

/** Runs one guest tool on top of the wait that caused it, and tells the host what it answered. */
export async function runTool(guest: GuestState, response: ChatResponse, request: ToolRequest): Promise<void> {
  const below = guest.link.parent;
  guest.link.parent = response.call;
  guest.depth++;
  response.callbacks++;
  try {
    const answer = await guest.runTool(request, response.arena);
    if (response.pending) {
      guest.link.tell(response.call, ['tool_result', request.callback, answer.rc, answer.content]);
    }
  } finally {
    response.callbacks--;
    guest.depth--;
    guest.link.parent = below;
  }
}

/** Runs the oldest callback that a send in the background waits for; false if there is none, or no room on the stack. */
export async function runWaitingTool(guest: GuestState): Promise<boolean> {
  if (guest.depth >= MAX_DEPTH) return false;
  for (let next = guest.waitingTools.shift(); next; next = guest.waitingTools.shift()) {
    if (!next.response.pending) continue;
    await runTool(guest, next.response, next.request);
    return true;
  }
  return false;
}
