import type { ErrnoName } from '../abi/errno.ts';
import type { JsonObject } from '../base/json.ts';
import type { InjectedTools, InjectionRequest, ToolSource } from '../chat/injected-tools.ts';
import type { Decision } from '../policy/decision.ts';
import { aboutServer, decide } from '../policy/walk.ts';
import { McpTimeoutError } from '../pool/errors.ts';
import type { TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import type { ApprovalOptions } from './approval/gate.ts';
import { type GuestScope, type McpDeps, revisionOf } from './guest-scope.ts';
import type { McpToolCall } from './running-call.ts';
import { filterTools } from './session-tools.ts';
import { ToolCalls } from './tool-calls.ts';
import { ToolInjector } from './tool-injector.ts';

/** MCP as one guest has it: everything goes through its task's policy, at injection and again at every dispatch. */
export class GuestMcp implements ToolSource {
  readonly task: TaskPolicy;
  readonly #scope: GuestScope;
  readonly #calls: ToolCalls;
  readonly #injector: ToolInjector;

  constructor(deps: McpDeps, run: string, task: TaskPolicy, approvals: ApprovalOptions = {}) {
    const { pool, registry, audit, events } = deps;
    this.task = task;
    this.#scope = { pool, registry, audit, events, run, task };
    this.#calls = new ToolCalls(this.#scope, approvals);
    this.#injector = new ToolInjector(this.#scope, this.#calls);
  }

  close(): void {
    this.#calls.close();
  }

  /** The tools for one send. */
  inject(request: InjectionRequest, signal: AbortSignal): Promise<InjectedTools> {
    return this.#injector.inject(request, signal);
  }

  /** For `mcp_open`: null if the guest may have it. */
  open(serverId: string): ErrnoName | null {
    const decision = this.#decideServer(serverId);
    if (decision.allowed) return null;
    switch (decision.reason) {
      case 'registry_not_ready':
        return 'EAGAIN';
      case 'unknown_server':
        return 'ENOENT';
      default:
        return 'EACCES';
    }
  }

  /** For `mcp_list_tools`: the tools that policy lets this guest call. */
  async listTools(serverId: string, signal: AbortSignal): Promise<JsonObject | ErrnoName> {
    const decision = this.#decideServer(serverId);
    if (!decision.allowed) return 'EACCES';
    try {
      const list = await this.#scope.pool.listTools(decision.record, { signal });
      const now = this.#decideServer(serverId);
      if (!now.allowed) return 'EACCES';
      const { tools } = filterTools(list, now.record, this.task, null);
      return {
        server_id: serverId,
        tools: tools.map(({ name, description, inputSchema }) => ({ description, inputSchema, name })),
      };
    } catch (error) {
      if (!this.#decideServer(serverId).allowed) return 'EACCES'; // revoked, and therefore gone
      return error instanceof McpTimeoutError ? 'ETIMEDOUT' : 'ENOTCONN';
    }
  }

  /** For `mcp_call_tool` and `mcp_submit`: no session narrows what the task allows. */
  call(call: Omit<McpToolCall, 'sessionPolicy' | 'maxOutputBytes'>, signal: AbortSignal): Promise<string> {
    return this.#calls.call({ ...call, sessionPolicy: null, maxOutputBytes: undefined }, signal);
  }

  registryList(): JsonObject | ErrnoName {
    const view = this.#scope.registry.view();
    if (!this.task.enabled) return 'EACCES';
    if (view === null) return 'EAGAIN';
    const usable = [...this.task.allowedServerIds].sort().filter((id) => this.#decideServer(id).allowed);
    return {
      revision: revisionOf(this.#scope) ?? 0,
      servers: usable.map((id) => publicRecord(view.servers.get(id) as McpServerRecord)),
    };
  }

  registryGet(serverId: string): JsonObject | ErrnoName {
    const refused = this.open(serverId);
    const record = this.#scope.registry.view()?.servers.get(serverId);
    if (refused || !record) return refused ?? 'ENOENT';
    return { ...publicRecord(record), allowed_tools: [...record.allowed_tools], budgets: { ...record.budgets } };
  }

  #decideServer(serverId: string): Decision {
    return decide(aboutServer(this.#scope.registry.view(), this.task, null, serverId));
  }
}

/** What a guest may know of a server: never commands, env, headers or secrets. */
function publicRecord({ server_id, display_name, transport }: McpServerRecord): JsonObject {
  return { display_name, server_id, transport };
}
