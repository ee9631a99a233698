import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';

export interface ModelToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON as the model wrote it. */
  readonly arguments: string;
  /** Names the call in its run. @default its id */
  readonly ordinal?: string | undefined;
}

/** What a send says about itself when it asks for tools. */
export interface InjectionRequest {
  readonly session: string;
  /** The `mcp.*` parameters that the guest set, in the order they were first set. */
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
  /** Names that are taken. */
  readonly guestTools: ReadonlySet<string>;
  readonly maxOutputBytes: number;
}

/** Where tools that live outside the guest come from. Asked once per send, and only if its calls can be answered. */
export interface ToolSource {
  inject(request: InjectionRequest, signal: AbortSignal): Promise<InjectedTools>;
}

/** Tools that come from outside the guest, as they stand for one send. */
export interface InjectedTools {
  /** OpenAI tool objects, in an order that depends on nothing but the set. */
  readonly definitions: readonly JsonObject[];
  /** A system message for this request alone, or null. */
  readonly systemMessage: string | null;
  /** Whether a name that the model used is one of these, or could be taken for one. */
  owns(name: string): boolean;
  /** `tool_choice` with a forced MCP tool under the name it was injected with; null if that tool is not there. */
  toolChoice(choice: JsonValue): JsonValue | null;
  /** Runs calls beside each other to their ends; a failure is an answer too. Answers stand where their calls do. */
  run(calls: readonly ModelToolCall[], signal: AbortSignal): Promise<readonly string[]>;
}

/** Every form under which an MCP tool was ever shown to a model. */
export function looksLikeMcp(name: string): boolean {
  return name.startsWith('mcp__') || name.startsWith('mcp.');
}

/** The name of the tool that a `tool_choice` forces; null if it forces none. */
export function forcedTool(choice: JsonValue): string | null {
  const fn = isJsonObject(choice) ? choice.function : undefined;
  return isJsonObject(fn) && typeof fn.name === 'string' ? fn.name : null;
}

export function notInjected(name: string, why?: string): string {
  const message = `${JSON.stringify(name)} is not among the tools of this send${why ? `: ${why}` : ''}`;
  return canonicalJson({ error: { code: 'mcp_policy_denied', message, retryable: false } });
}

/** A send without MCP: a name of an MCP tool is refused all the same, whatever its form. */
export const noInjectedTools: InjectedTools = {
  definitions: [],
  systemMessage: null,
  owns: looksLikeMcp,
  toolChoice: (choice) => (looksLikeMcp(forcedTool(choice) ?? '') ? null : choice),
  run: async (calls) => calls.map(({ name }) => notInjected(name)),
};
