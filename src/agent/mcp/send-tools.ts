import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { SessionPolicy } from '../../runtime/port/policy-layers.ts';
import type { InjectedTools, InjectionRequest, ModelToolCall } from '../chat/injected-tools.ts';
import type { McpToolCall } from './call-records.ts';
import type { Injection, ResourceName } from './injection.ts';
import { type ListServer, readCall, withReadableLinks } from './resource-tools.ts';
import { CALL_TOOL, SEARCH_TOOL, throughCall } from './search/tool-search.ts';
import type { ToolCalls } from './tool-calls.ts';

/** Access of a send to resources, by the current policy. */
export interface ResourceAccess {
  readonly list: ListServer;
  mayRead(serverId: string, uri: string): boolean;
}

/** The MCP tools of one send: resolves names of the model and runs its calls. */
export class SendTools implements InjectedTools {
  readonly definitions: readonly JsonObject[];
  readonly systemMessage: string | null;
  readonly #injection: Injection;
  readonly #calls: ToolCalls;
  readonly #request: Pick<InjectionRequest, 'session' | 'maxOutputBytes'>;
  readonly #sessionPolicy: SessionPolicy;
  readonly #resources: ResourceAccess;

  constructor(
    injection: Injection,
    calls: ToolCalls,
    request: InjectionRequest,
    sessionPolicy: SessionPolicy,
    resources: ResourceAccess,
  ) {
    ({ definitions: this.definitions, systemMessage: this.systemMessage } = injection.shown);
    this.#injection = injection;
    this.#calls = calls;
    this.#request = request;
    this.#sessionPolicy = sessionPolicy;
    this.#resources = resources;
  }

  owns(name: string): boolean {
    return this.#injection.find(name) !== null;
  }

  toolChoice(choice: JsonValue): JsonValue | null {
    return this.#injection.toolChoice(choice);
  }

  run(calls: readonly ModelToolCall[], signal: AbortSignal): Promise<readonly string[]> {
    if (this.#injection.shown.resources !== null) return this.#runWithResources(calls, signal);
    return this.#calls.callAll(
      calls.map((call) => this.#resolve(call)),
      signal,
    );
  }

  /** With resource tools: lists run beside the calls, and links in results say how to read them. */
  async #runWithResources(calls: readonly ModelToolCall[], signal: AbortSignal): Promise<readonly string[]> {
    const lists = calls.map((call) => this.#listed(call, signal));
    const meant = calls.flatMap((call, at) => (lists[at] === null ? [this.#resolve(call)] : []));
    const answered = await this.#calls.callAll(meant, signal);
    const others = answered.map((json, at) => this.#linked(meant[at] ?? json, json)).values();
    return Promise.all(lists.map((list) => list ?? (others.next().value as string)));
  }

  /** The result of a call that lists resources; null: another call. */
  #listed(call: ModelToolCall, signal: AbortSignal): Promise<string> | null {
    const found = this.#injection.find(call.name);
    if (found?.kind !== 'list_resources') return null;
    const { session, maxOutputBytes } = this.#request;
    const startedAt = performance.now();
    return found.tools
      .list(call.arguments, maxOutputBytes, this.#resources.list, signal)
      .then((json) => this.#calls.records.answer(call, session, json, performance.now() - startedAt));
  }

  #linked(meant: McpToolCall | string, json: string): string {
    if (typeof meant === 'string' || meant.kind === 'resource') return json;
    const { serverId, maxOutputBytes = Number.POSITIVE_INFINITY } = meant;
    return withReadableLinks(json, serverId, maxOutputBytes, (uri) => this.#resources.mayRead(serverId, uri));
  }

  /** The tool call that the model means, or its result if no call is necessary. */
  #resolve(call: ModelToolCall): McpToolCall | string {
    const { session, maxOutputBytes } = this.#request;
    const found = this.#injection.find(call.name);
    if (found?.kind === 'search') {
      return this.#calls.records.answer(call, session, found.search.search(call.arguments, maxOutputBytes));
    }
    if (found?.kind === 'through') {
      const meant = throughCall(call.arguments);
      // The search tools cannot be called through each other.
      if (meant === null || [SEARCH_TOOL, CALL_TOOL].includes(meant.name)) {
        return this.#calls.records.answer(call, session, null);
      }
      return this.#resolve({ id: call.id, ordinal: call.ordinal, ...meant });
    }
    if (found !== null && 'tools' in found) return this.#read(call, found);
    if (found?.kind !== 'tool') return this.#calls.records.refuse(call, session, found?.why ?? null);
    const { record, tool } = found;
    return {
      serverId: record.server_id,
      tool,
      arguments: call.arguments,
      callId: call.id,
      session,
      ordinal: call.ordinal,
      maxOutputBytes: Math.min(maxOutputBytes, record.budgets.max_tool_output_bytes),
      sessionPolicy: this.#sessionPolicy,
    };
  }

  #read(call: ModelToolCall, { kind, tools }: ResourceName): McpToolCall | string {
    const { session, maxOutputBytes } = this.#request;
    const meant = kind === 'read_resource' ? readCall(call.arguments) : null;
    const record = meant === null ? null : tools.record(meant.server);
    if (meant === null || record === null) return this.#calls.records.answer(call, session, null);
    return {
      kind: 'resource',
      serverId: meant.server,
      tool: meant.uri,
      arguments: '',
      callId: call.id,
      session,
      maxOutputBytes: Math.min(maxOutputBytes, record.budgets.max_tool_output_bytes),
      sessionPolicy: this.#sessionPolicy,
    };
  }
}
