import type { ErrnoName } from '../abi/errno.ts';
import type { AuditEvent, AuditExclusion, AuditTrail } from '../audit/event.ts';
import { redactArguments } from '../audit/redact-arguments.ts';
import type { JsonObject, JsonValue } from '../base/json.ts';
import { type InjectedTools, type ModelToolCall, notInjected } from '../chat/injected-tools.ts';
import { type Decision, deny, type Exclusion, exclusion } from '../policy/decision.ts';
import { effectiveSet } from '../policy/effective-set.ts';
import { aboutServer, decide, decideCall } from '../policy/walk.ts';
import { McpTimeoutError, toToolError } from '../pool/errors.ts';
import type { McpPool } from '../pool/pool.ts';
import { applySessionParam } from '../protocol/mcp-params.ts';
import { initialSession, type SessionPolicy, type TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import type { RegistryCache } from '../registry/cache.ts';
import type { ApprovalDecider } from './approval/decider.ts';
import { ApprovalGate, type ApprovalOptions } from './approval/gate.ts';
import type { NamedTool } from './injection.ts';
import { InjectionMemory } from './injection-memory.ts';
import { filterTools, listFailure, type ServerTools } from './session-tools.ts';
import { type CallPorts, callTool, type InFlight, parseArguments, type ToolCall } from './tool-call.ts';
import type { ToolEvents } from './tool-events.ts';

/** What all guests of a process share. */
export interface McpDeps {
  readonly pool: Pick<McpPool, 'callTool' | 'describeTool' | 'listTools'>;
  readonly registry: Pick<RegistryCache, 'view' | 'snapshot' | 'onChange'>;
  readonly audit: AuditTrail;
  readonly events: ToolEvents;
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

/** MCP as one guest has it: everything goes through its task's policy, at injection and again at every dispatch. */
export class GuestMcp {
  readonly #deps: McpDeps;
  readonly #run: string;
  readonly task: TaskPolicy;
  readonly #sessions = new Set<string>();
  readonly #inFlight: InFlight = new Set();
  readonly #injections = new InjectionMemory();
  readonly #unsubscribe: () => void;
  readonly #approvals: ApprovalGate;
  readonly #ports: CallPorts;

  constructor(deps: McpDeps, run: string, task: TaskPolicy, approvals: ApprovalOptions = {}) {
    this.#deps = deps;
    this.#run = run;
    this.task = task;
    const showArguments = deps.audit.showArguments ?? redactArguments;
    this.#approvals = new ApprovalGate(approvals, {
      run,
      task,
      revision: () => this.#revision(),
      audit: (event) => this.#audit(event),
      showArguments,
      describe: (record, call) => deps.pool.describeTool(record, call),
    });
    this.#ports = {
      pool: deps.pool,
      approvals: this.#approvals,
      audit: (event) => this.#audit(event),
      showArguments,
      emit: (invocation) => deps.events.emit({ run, ...invocation }),
    };
    this.#unsubscribe = deps.registry.onChange(() => {
      for (const askAgain of [...this.#inFlight]) askAgain();
    });
  }

  close(): void {
    this.#unsubscribe();
    this.#approvals.close();
  }

  /** Who is asked about calls that need an approval, instead of whoever was before. */
  decideWith(decide: ApprovalDecider, timeoutMs: number): void {
    this.#approvals.decideWith(decide, timeoutMs);
  }

  /** The tools for one send. A server that cannot be listed costs its own tools and nothing else. */
  async inject(request: InjectionRequest, signal: AbortSignal): Promise<InjectedTools> {
    const policy = this.#sessionPolicy(request.params);
    const view = this.#deps.registry.view();
    const effective = effectiveSet(view, this.task, policy);
    this.#auditSession(request.session, effective.serverIds, effective.exclusions);
    const listings = await Promise.all(
      effective.serverIds.map((id) => this.#list(view?.servers.get(id) as McpServerRecord, policy, signal)),
    );
    const { injection, collisions } = this.#injections.find(policy, listings, request.guestTools);
    for (const [at, listing] of listings.entries()) {
      this.#auditInjection(request.session, listing, collisions[at] ?? []);
    }
    return injection.tools({
      run: (call, tool, runSignal) => this.#runInjected(call, tool, request, policy, runSignal),
      refuse: (call, why) => this.#refuse(call, request.session, why),
    });
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
      const list = await this.#deps.pool.listTools(decision.record, { signal });
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

  /** For `mcp_call_tool` and `mcp_submit`. */
  call(
    call: Pick<ToolCall, 'serverId' | 'tool' | 'arguments' | 'callId' | 'session'>,
    signal: AbortSignal,
  ): Promise<string> {
    return this.#call({ ...call, maxOutputBytes: undefined }, null, signal);
  }

  registryList(): JsonObject | ErrnoName {
    const view = this.#deps.registry.view();
    if (!this.task.enabled) return 'EACCES';
    if (view === null) return 'EAGAIN';
    const usable = [...this.task.allowedServerIds].sort().filter((id) => this.#decideServer(id).allowed);
    return {
      revision: this.#deps.registry.snapshot()?.revision ?? 0,
      servers: usable.map((id) => publicRecord(view.servers.get(id) as McpServerRecord)),
    };
  }

  registryGet(serverId: string): JsonObject | ErrnoName {
    const refused = this.open(serverId);
    const record = this.#deps.registry.view()?.servers.get(serverId);
    if (refused || !record) return refused ?? 'ENOENT';
    return { ...publicRecord(record), allowed_tools: [...record.allowed_tools], budgets: { ...record.budgets } };
  }

  #sessionPolicy(params: InjectionRequest['params']): SessionPolicy {
    let policy = initialSession(this.task);
    for (const [key, value] of params) {
      const applied = applySessionParam(policy, this.task, key, value);
      if (applied.ok) policy = applied.policy; // refused on the guest's thread already; that thread is not trusted
    }
    return policy;
  }

  async #list(record: McpServerRecord, policy: SessionPolicy, signal: AbortSignal): Promise<ServerTools> {
    const started = performance.now();
    try {
      const list = await this.#deps.pool.listTools(record, { signal });
      return {
        record,
        ...filterTools(list, record, this.task, policy),
        failure: null,
        durationMs: performance.now() - started,
      };
    } catch (error) {
      const failure = listFailure(error);
      const exclusions = [exclusion(record.server_id, null, deny(failure, 'node', toToolError(error).message))];
      return { record, tools: [], exclusions, failure, durationMs: performance.now() - started };
    }
  }

  #runInjected(
    call: ModelToolCall,
    { record, tool }: NamedTool,
    { session, maxOutputBytes }: InjectionRequest,
    policy: SessionPolicy,
    signal: AbortSignal,
  ): Promise<string> {
    const about = { serverId: record.server_id, tool, arguments: call.arguments, callId: call.id, session };
    const cap = Math.min(maxOutputBytes, record.budgets.max_tool_output_bytes);
    return this.#call({ ...about, maxOutputBytes: cap }, policy, signal);
  }

  /** A name that was not injected into this send is refused, whatever its form, and leaves the same trail as a call. */
  #refuse(call: ModelToolCall, session: string, why: Exclusion | null): string {
    const answer = notInjected(call.name, why?.detail);
    const tool = why?.tool ?? call.name;
    const server = why?.serverId ?? null;
    const about = {
      session_id: session,
      request_id: call.id,
      source: 'mcp',
      server_id: server,
      tool_name: tool,
    } as const;
    const revision = this.#revision();
    const reason = why?.reason ?? 'not_injected';
    const bytes = Buffer.byteLength(answer);
    const args = this.#ports.showArguments(parseArguments(call.arguments));
    this.#audit({ event: 'tool_call.started', ...about, args });
    const result = { status: 'denied', reason, duration_ms: 0, output_bytes: bytes, revision } as const;
    this.#audit({ event: 'tool_call.finished', ...about, ...result });
    const outcome = 'mcp_policy_denied';
    this.#ports.emit({ source: 'mcp', session, server, tool, callId: call.id, outcome, durationMs: 0, bytes });
    return answer;
  }

  #call(
    call: Omit<ToolCall, 'owner' | 'decide' | 'sessionPolicy'>,
    policy: SessionPolicy | null,
    signal: AbortSignal,
  ): Promise<string> {
    const decide = () => ({
      ...decideCall(this.#deps.registry.view(), this.task, policy, call.serverId, call.tool),
      revision: this.#revision(),
    });
    const owner = `${this.#run}/${call.session}`;
    return callTool({ ...call, owner, decide, sessionPolicy: policy }, this.#ports, this.#inFlight, signal);
  }

  #decideServer(serverId: string): Decision {
    return decide(aboutServer(this.#deps.registry.view(), this.task, null, serverId));
  }

  #revision(): number | null {
    return this.#deps.registry.snapshot()?.revision ?? null;
  }

  #audit(event: AuditEvent): void {
    this.#deps.audit.write(this.#run, event);
  }

  #auditSession(session: string, servers: readonly string[], exclusions: readonly Exclusion[]): void {
    if (this.#sessions.has(session)) return;
    this.#sessions.add(session);
    const lines = exclusions.map(toAudit);
    const revision = this.#revision();
    this.#audit({ event: 'session.created', session_id: session, revision, servers, exclusions: lines });
  }

  #auditInjection(session: string, listing: ServerTools, collisions: readonly Exclusion[]): void {
    this.#audit({
      event: 'mcp.injected',
      session_id: session,
      server_id: listing.record.server_id,
      status: listing.failure === null ? 'ok' : 'failed',
      reason: listing.failure,
      tools: listing.tools.length - collisions.length,
      exclusions: [...listing.exclusions, ...collisions].map(toAudit),
      duration_ms: Math.round(listing.durationMs),
    });
  }
}

function toAudit({ serverId, tool, reason, layer, detail }: Exclusion): AuditExclusion {
  return { server_id: serverId, tool_name: tool, reason, layer, detail };
}

/** What a guest may know of a server: never commands, env, headers or secrets. */
function publicRecord({ server_id, display_name, transport }: McpServerRecord): JsonObject {
  return { display_name, server_id, transport };
}
