import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { ChatRequest } from './backend.ts';

export interface ModelToolCall {
  readonly id: string;
  readonly name: string;
  /** Arguments as JSON text, as the model wrote it. */
  readonly arguments: string;
  /** Identifies the call in its run. @default its id */
  readonly ordinal?: string | undefined;
}

/** Request of a send for external tools. */
export interface InjectionRequest {
  readonly session: string;
  /** The `mcp.*` parameters that the guest set, in the order they were first set. */
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
  /** Names of the guest's tools, which are unavailable. */
  readonly guestTools: ReadonlySet<string>;
  readonly maxOutputBytes: number;
}

/** Source of tools outside the guest. Called once per send, and only if tool calls can be answered. */
export interface ToolSource {
  inject(request: InjectionRequest, signal: AbortSignal): Promise<InjectedTools>;
}

/** Tools outside the guest, fixed for one send. */
export interface InjectedTools {
  /** OpenAI tool objects, in an order that depends only on the set of tools. */
  readonly definitions: readonly JsonObject[];
  /** System message for this send only; null: none. */
  readonly systemMessage: string | null;
  /** Whether a tool name belongs to these tools or looks like a name of them. */
  owns(name: string): boolean;
  /** `tool_choice` with the injected name of a forced MCP tool; null: that tool is not injected. */
  toolChoice(choice: JsonValue): JsonValue | null;
  /** Runs calls concurrently and returns one result per call, in order; a failure is a result too. */
  run(calls: readonly ModelToolCall[], signal: AbortSignal): Promise<readonly string[]>;
}

/** Whether a name has one of the forms that injected MCP tools have or had. */
export function looksLikeMcp(name: string): boolean {
  return name.startsWith('mcp__') || name.startsWith('mcp.');
}

/** Name of the tool that a `tool_choice` forces; null: none. */
export function forcedTool(choice: JsonValue): string | null {
  const fn = isJsonObject(choice) ? choice.function : undefined;
  return isJsonObject(fn) && typeof fn.name === 'string' ? fn.name : null;
}

export function notInjected(name: string, why?: string): string {
  const message = `${JSON.stringify(name)} is not among the tools of this send${why ? `: ${why}` : ''}`;
  return canonicalJson({ error: { code: 'mcp_policy_denied', message, retryable: false } });
}

/** A send without MCP. Names of MCP tools are rejected. */
export const noInjectedTools: InjectedTools = {
  definitions: [],
  systemMessage: null,
  owns: looksLikeMcp,
  toolChoice: (choice) => (looksLikeMcp(forcedTool(choice) ?? '') ? null : choice),
  run: async (calls) => calls.map(({ name }) => notInjected(name)),
};

/** Removes a forced tool choice: a model that must call a tool after every result would never finish. */
export function withoutForce(head: ChatRequest): ChatRequest {
  const { tool_choice: choice, ...rest } = head;
  const left = unforced(choice);
  return left === choice ? head : { ...(rest as ChatRequest), ...(left === undefined ? {} : { tool_choice: left }) };
}

/** A `tool_choice` without the force; undefined, which providers treat as "auto": nothing is left. */
export function unforced(choice: JsonValue | undefined): JsonValue | undefined {
  if (choice === 'auto' || choice === 'none') return choice;
  const allowed = isJsonObject(choice) ? choice.allowed_tools : undefined;
  if (!isJsonObject(choice) || !isJsonObject(allowed)) return undefined;
  return allowed.mode === 'auto' ? choice : { ...choice, allowed_tools: { ...allowed, mode: 'auto' } };
}
