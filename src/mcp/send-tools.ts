import type { JsonObject, JsonValue } from '../base/json.ts';
import type { InjectedTools, InjectionRequest, ModelToolCall } from '../chat/injected-tools.ts';
import type { SessionPolicy } from '../protocol/policy-layers.ts';
import type { Injection } from './injection.ts';
import type { ToolCalls } from './tool-calls.ts';

/** The MCP tools of one send: its names, and the way that calls of them go. */
export class SendTools implements InjectedTools {
  readonly definitions: readonly JsonObject[];
  readonly systemMessage: string | null;
  readonly #injection: Injection;
  readonly #calls: ToolCalls;
  readonly #request: Pick<InjectionRequest, 'session' | 'maxOutputBytes'>;
  readonly #sessionPolicy: SessionPolicy;

  constructor(injection: Injection, calls: ToolCalls, request: InjectionRequest, sessionPolicy: SessionPolicy) {
    ({ definitions: this.definitions, systemMessage: this.systemMessage } = injection.shown);
    this.#injection = injection;
    this.#calls = calls;
    this.#request = request;
    this.#sessionPolicy = sessionPolicy;
  }

  owns(name: string): boolean {
    return this.#injection.find(name) !== null;
  }

  toolChoice(choice: JsonValue): JsonValue | null {
    return this.#injection.toolChoice(choice);
  }

  async run(call: ModelToolCall, signal: AbortSignal): Promise<string> {
    const { session, maxOutputBytes } = this.#request;
    const found = this.#injection.find(call.name);
    if (found?.kind !== 'tool') return this.#calls.refuse(call, session, found?.why ?? null);
    const { record, tool } = found;
    const about = { serverId: record.server_id, tool, arguments: call.arguments, callId: call.id, session };
    const cap = Math.min(maxOutputBytes, record.budgets.max_tool_output_bytes);
    return this.#calls.call({ ...about, maxOutputBytes: cap, sessionPolicy: this.#sessionPolicy }, signal);
  }
}
