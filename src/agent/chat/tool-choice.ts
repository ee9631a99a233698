import { isJsonObject, type JsonValue } from '../../base/json.ts';
import type { ChatRequest } from './backend.ts';

/** A model that is made to call a tool again when it has the result would call it for ever. */
export function withoutForce(head: ChatRequest): ChatRequest {
  const { tool_choice: choice, ...rest } = head;
  const left = unforced(choice);
  return left === choice ? head : { ...(rest as ChatRequest), ...(left === undefined ? {} : { tool_choice: left }) };
}

/** What is left of a `tool_choice` without its force; undefined, which every provider takes as "auto", if nothing is. */
export function unforced(choice: JsonValue | undefined): JsonValue | undefined {
  if (choice === 'auto' || choice === 'none') return choice;
  const allowed = isJsonObject(choice) ? choice.allowed_tools : undefined;
  if (!isJsonObject(choice) || !isJsonObject(allowed)) return undefined;
  return allowed.mode === 'auto' ? choice : { ...choice, allowed_tools: { ...allowed, mode: 'auto' } };
}
