import type { AuditEvent, AuditExclusion } from '../audit/event.ts';
import type { InjectedTools, InjectionRequest } from '../chat/injected-tools.ts';
import { deny, type Exclusion, exclusion } from '../policy/decision.ts';
import { effectiveSet } from '../policy/effective-set.ts';
import { toToolError } from '../pool/errors.ts';
import { applyMcpParam } from '../protocol/mcp-params.ts';
import { initialSession, type SessionPolicy, type TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type GuestScope, revisionOf } from './guest-scope.ts';
import { InjectionMemory } from './injection-memory.ts';
import { SendTools } from './send-tools.ts';
import { filterTools, listFailure, type ServerTools } from './session-tools.ts';
import type { ToolCalls } from './tool-calls.ts';

/** Gives each send of one guest the tools that its session may call. */
export class ToolInjector {
  readonly #scope: GuestScope;
  readonly #calls: ToolCalls;
  readonly #sessions = new Set<string>();
  readonly #memory = new InjectionMemory();

  constructor(scope: GuestScope, calls: ToolCalls) {
    this.#scope = scope;
    this.#calls = calls;
  }

  /** A server that cannot be listed costs its own tools and nothing else. */
  async inject(request: InjectionRequest, signal: AbortSignal): Promise<InjectedTools> {
    const { registry, task } = this.#scope;
    const policy = sessionPolicy(task, request.params);
    const view = registry.view();
    const effective = effectiveSet(view, task, policy);
    this.#auditSession(request.session, effective.serverIds, effective.exclusions);
    const listings = await Promise.all(
      effective.serverIds.map((id) => this.#list(view?.servers.get(id) as McpServerRecord, policy, signal)),
    );
    const { injection, collisions } = this.#memory.find(policy, listings, request.guestTools);
    for (const [at, listing] of listings.entries()) {
      this.#auditInjection(request.session, listing, collisions[at] ?? []);
    }
    return new SendTools(injection, this.#calls, request, policy);
  }

  async #list(record: McpServerRecord, policy: SessionPolicy, signal: AbortSignal): Promise<ServerTools> {
    const started = performance.now();
    try {
      const list = await this.#scope.pool.listTools(record, { signal });
      return {
        record,
        ...filterTools(list, record, this.#scope.task, policy),
        failure: null,
        durationMs: performance.now() - started,
      };
    } catch (error) {
      const failure = listFailure(error);
      const exclusions = [exclusion(record.server_id, null, deny(failure, 'node', toToolError(error).message))];
      return { record, tools: [], exclusions, failure, durationMs: performance.now() - started };
    }
  }

  #auditSession(session: string, servers: readonly string[], exclusions: readonly Exclusion[]): void {
    if (this.#sessions.has(session)) return;
    this.#sessions.add(session);
    const lines = exclusions.map(toAudit);
    const revision = revisionOf(this.#scope);
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

  #audit(event: AuditEvent): void {
    this.#scope.audit.write(this.#scope.run, event);
  }
}

function sessionPolicy(task: TaskPolicy, params: InjectionRequest['params']): SessionPolicy {
  let policy = initialSession(task);
  for (const [key, value] of params) {
    const applied = applyMcpParam(policy, task, key, value);
    if (applied.ok) policy = applied.policy; // refused on the guest's thread already; that thread is not trusted
  }
  return policy;
}

function toAudit({ serverId, tool, reason, layer, detail }: Exclusion): AuditExclusion {
  return { server_id: serverId, tool_name: tool, reason, layer, detail };
}
