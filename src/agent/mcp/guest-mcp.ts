import { exhaustedResource } from '../../base/errors.ts';
import type { JsonObject } from '../../base/json.ts';
import type { ErrnoName } from '../../runtime/abi/errno.ts';
import type { TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { RunDegradation } from '../../server/records/run.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { ApprovalOptions } from '../approvals/gate.ts';
import type { InjectedTools, InjectionRequest, ToolSource } from '../chat/injected-tools.ts';
import { type ApprovalRules, noRules } from '../policy/approval-rules.ts';
import { type Decision, exclusion } from '../policy/decision.ts';
import { AllowedCalls } from '../policy/effective-set.ts';
import { profileOf } from '../policy/record-checks.ts';
import { aboutServer, decide } from '../policy/walk.ts';
import type { McpToolCall } from './call-records.ts';
import { McpConnectionError, McpTimeoutError, toToolError } from './client/errors.ts';
import type { ToolList } from './client/tool-list.ts';
import { type GuestScope, type McpDeps, revisionOf } from './guest-scope.ts';
import { lossesOf, ServerTroubles } from './server-troubles.ts';
import { availablePrompts, filterTools, type OfferScope, readableResources } from './session-tools.ts';
import { type TakeAnswer, type ToolCall, ToolCalls } from './tool-calls.ts';
import { ToolInjector } from './tool-injector.ts';

/** Required servers that a run lacks. */
export interface MissingServers {
  /** For users: each server with the reason. */
  readonly message: string;
  /** Code of the system error for a resource that the host lacks, such as `EMFILE`; null: the servers are at fault. */
  readonly exhausted: string | null;
}

/** A call that a guest makes itself. */
export type GuestToolCall = Omit<McpToolCall, 'sessionPolicy' | 'maxOutputBytes'>;

/**
 * MCP for one guest: hostcalls, and the tools of its sends.
 *
 * Invariants: every list and call is filtered by the task's policy, at injection and again at each dispatch; a server that
 * the task requires and that is denied or unreachable is reported as degraded, however the guest reaches for it.
 * Not handled here: calls (tool-calls.ts), the selection of tools for a send (tool-injector.ts).
 */
export class GuestMcp implements ToolSource {
  readonly task: TaskPolicy;
  readonly approvalRules: ApprovalRules;
  readonly #scope: GuestScope;
  readonly #calls: ToolCalls;
  readonly #injector: ToolInjector;

  constructor(deps: McpDeps, run: string, task: TaskPolicy, approvals: ApprovalOptions = {}) {
    const { pool, registry, audit, events, journal = null, trace = null, stopClocks } = deps;
    const troubles = new ServerTroubles(deps.troubles ?? {});
    this.task = task;
    this.approvalRules = approvals.rules ?? noRules;
    const allowed = new AllowedCalls(task);
    this.#scope = { pool, registry, audit, events, journal, trace, stopClocks, run, task, allowed, troubles };
    this.#calls = new ToolCalls(this.#scope, approvals);
    this.#injector = new ToolInjector(this.#scope, this.#calls);
  }

  /** Current revision of the registry; null: none. */
  get revision(): number | null {
    return revisionOf(this.#scope);
  }

  /** Servers whose tools the guest lacked so far, with the reason. */
  get degraded(): readonly RunDegradation[] {
    return this.#scope.troubles.degraded;
  }

  /** Calls that have not ended, including those that wait for an approval. */
  get underway(): number {
    return this.#calls.underway;
  }

  close(): void {
    this.#calls.close();
  }

  /** Tools for one send. */
  inject(request: InjectionRequest, signal: AbortSignal): Promise<InjectedTools> {
    return this.#injector.inject(request, signal);
  }

  /** Lists the tools of every server that the task requires. Returns why the run cannot start; null: it can. */
  async requireServers(signal: AbortSignal | null): Promise<MissingServers | null> {
    let exhausted: string | null = null;
    const missing = (this.task.requiredServerIds ?? []).map(async (serverId): Promise<RunDegradation[]> => {
      const decision = this.#decideServer(serverId);
      if (!decision.allowed) return [{ server: serverId, reason: decision.detail }];
      try {
        await this.#tools(decision.record, signal);
        return [];
      } catch (error) {
        const code = error instanceof McpConnectionError ? error.systemError : null;
        if (exhaustedResource(code) !== null) exhausted = code;
        return [{ server: serverId, reason: toToolError(error).message }];
      }
    });
    const found = (await Promise.all(missing)).flat();
    if (found.length === 0 || signal?.aborted) return null;
    // A run that is retried on a host with enough resources is not degraded.
    if (exhausted === null) await this.#scope.troubles.add(found);
    const message = found.map(({ server, reason }) => `required server ${server}: ${reason}`).join('; ');
    return { message, exhausted };
  }

  /** For `mcp_open`: null if the guest may have it. */
  open(serverId: string): ErrnoName | null {
    const decision = this.#decideListed(serverId);
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
  listTools(serverId: string, signal: AbortSignal): Promise<JsonObject | ErrnoName> {
    return this.#list(
      serverId,
      signal,
      (record) => this.#tools(record, signal),
      (list, { record, task, profile }) => {
        const { tools } = filterTools(list, record, task, null, profile);
        const shown = tools.map(({ name, description, inputSchema }) => ({ description, inputSchema, name }));
        return { server_id: serverId, tools: shown };
      },
    );
  }

  /** For `mcp_list_resources`: those that policy lets this guest read. */
  listResources(serverId: string, signal: AbortSignal): Promise<JsonObject | ErrnoName> {
    const { pool } = this.#scope;
    return this.#list(serverId, signal, (record) => pool.listResources(record, { signal }), readableResources);
  }

  /** For `mcp_list_prompts`: those that policy lets this guest get. */
  listPrompts(serverId: string, signal: AbortSignal): Promise<JsonObject | ErrnoName> {
    const { pool } = this.#scope;
    return this.#list(serverId, signal, (record) => pool.listPrompts(record, { signal }), availablePrompts);
  }

  /** For `mcp_call_tool`, `mcp_submit`, `mcp_read_resource` and `mcp_get_prompt`: only the task's policy applies. */
  start(call: GuestToolCall, take: TakeAnswer): ToolCall {
    return this.#calls.start(unnarrowed(call), take);
  }

  /** The same as a promise. */
  call(call: GuestToolCall, signal: AbortSignal): Promise<string> {
    return this.#calls.call(unnarrowed(call), signal);
  }

  registryList(): JsonObject | ErrnoName {
    const view = this.#scope.registry.view();
    if (!this.task.enabled) return 'EACCES';
    if (view === null) return 'EAGAIN';
    const listed = this.task.allowedServerIds ?? view.servers.keys();
    const usable = [...listed].sort().filter((id) => this.#decideListed(id).allowed);
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

  async #list<List>(
    serverId: string,
    signal: AbortSignal,
    ask: (record: McpServerRecord) => Promise<List>,
    show: (list: List, scope: OfferScope) => JsonObject,
  ): Promise<JsonObject | ErrnoName> {
    const decision = this.#decideListed(serverId);
    if (!decision.allowed) return 'EACCES';
    try {
      const list = await ask(decision.record);
      const now = this.#decideServer(serverId);
      if (!now.allowed) return 'EACCES';
      const profile = profileOf(this.#scope.registry.view(), this.task);
      return show(list, { record: now.record, task: this.task, session: null, profile });
    } catch (error) {
      if (!this.#decideServer(serverId).allowed) return 'EACCES'; // the revocation closed the connection
      if (!signal.aborted) await this.#scope.troubles.add([{ server: serverId, reason: toToolError(error).message }]);
      return error instanceof McpTimeoutError ? 'ETIMEDOUT' : 'ENOTCONN';
    }
  }

  #tools(record: McpServerRecord, signal: AbortSignal | null): Promise<ToolList> {
    const { pool, troubles } = this.#scope;
    const listing = pool.listTools(record, signal === null ? {} : { signal });
    return troubles.during(record.server_id, () => pool.step?.(record) ?? null, listing);
  }

  /** Reports a denied server of the task as degraded. */
  #decideListed(serverId: string): Decision {
    const decision = this.#decideServer(serverId);
    if (!decision.allowed && this.task.allowedServerIds?.includes(serverId)) {
      // The next send waits for the same promise, and fails if the mark cannot be stored.
      this.#scope.troubles.add(lossesOf([exclusion(serverId, null, decision)])).catch(() => {});
    }
    return decision;
  }

  #decideServer(serverId: string): Decision {
    return decide(aboutServer(this.#scope.registry.view(), this.task, null, serverId));
  }
}

function unnarrowed({ kind, serverId, tool, arguments: text, callId, session, ordinal }: GuestToolCall): McpToolCall {
  const names = { serverId, tool, callId, session, ordinal };
  return { kind, ...names, arguments: text, sessionPolicy: null, maxOutputBytes: undefined };
}

/** The part of a record that a guest may see: never commands, env, headers or secrets. */
function publicRecord({ server_id, display_name, transport }: McpServerRecord): JsonObject {
  return { display_name, server_id, transport };
}
