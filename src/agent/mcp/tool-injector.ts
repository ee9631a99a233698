import type { ShownTools } from '../../runtime/durable/tool-journal.ts';
import { applyMcpParam } from '../../runtime/port/mcp-params.ts';
import { initialSession, type SessionPolicy, type TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { AuditEvent, AuditExclusion } from '../../server/audit/event.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { InjectedTools, InjectionRequest } from '../chat/injected-tools.ts';
import { deny, type Exclusion, exclusion, type RegistryView } from '../policy/decision.ts';
import { effectiveSet } from '../policy/effective-set.ts';
import { profileOf } from '../policy/record-checks.ts';
import { uriProblem } from '../policy/resource-uri.ts';
import { aboutServer, decide, decideCall } from '../policy/walk.ts';
import { McpPolicyError, toToolError } from './client/errors.ts';
import { type GuestScope, revisionOf } from './guest-scope.ts';
import { type Injection, InjectionCache } from './injection.ts';
import { type ResourceAccess, SendTools } from './send-tools.ts';
import { lossesOf } from './server-troubles.ts';
import { filterTools, listFailure, readableResources, type ServerTools } from './session-tools.ts';
import type { ToolCalls } from './tool-calls.ts';
import { NameClaims, namedServers } from './tool-names.ts';

/** Selects the tools for each send of one guest. */
export class ToolInjector {
  readonly #scope: GuestScope;
  readonly #calls: ToolCalls;
  readonly #sessions = new Set<string>();
  readonly #memory = new InjectionCache();
  /** Policy of sessions that change nothing: one object, which the caches find again by identity. */
  readonly #unchanged: SessionPolicy;
  #claims: { readonly servers: readonly McpServerRecord[]; readonly names: NameClaims } | null = null;

  constructor(scope: GuestScope, calls: ToolCalls) {
    this.#scope = scope;
    this.#calls = calls;
    this.#unchanged = initialSession(scope.task);
  }

  /** A server that cannot be listed loses only its own tools. */
  async inject(request: InjectionRequest, signal: AbortSignal): Promise<InjectedTools> {
    const { registry, task } = this.#scope;
    const policy = changedBy(request.params, this.#unchanged, task);
    const view = registry.view();
    const effective = effectiveSet(view, task, policy);
    this.#auditSession(request.session, effective.serverIds, effective.exclusions);
    const listings = await Promise.all(
      effective.serverIds.map((id) => this.#list(view?.servers.get(id) as McpServerRecord, policy, signal)),
    );
    const { injection, collisions } = this.#memory.find(policy, listings, request.guestTools, this.#claimsIn(view));
    for (const [at, listing] of listings.entries()) {
      this.#auditInjection(request.session, listing, collisions[at] ?? []);
    }
    // A guest that cancelled its send or ended needs no report.
    if (!isCancelled(signal)) {
      await this.#scope.troubles.add(lossesOf([...effective.exclusions, ...listings.flatMap((one) => one.exclusions)]));
    }
    this.#scope.journal?.injected(request.session, request.params, injection, () => shownBy(injection));
    return new SendTools(injection, this.#calls, request, policy, this.#resources(policy));
  }

  #resources(policy: SessionPolicy): ResourceAccess {
    const { registry, task, pool } = this.#scope;
    return {
      mayRead: (serverId, uri) =>
        uriProblem(uri) === null && decideCall(registry.view(), task, policy, serverId, uri, null, 'resource').allowed,
      list: async (record, signal) => {
        const list = await pool.listResources(record, { signal });
        const now = decide(aboutServer(registry.view(), task, policy, record.server_id));
        if (!now.allowed) throw new McpPolicyError(record.server_id, now.detail);
        return readableResources(list, {
          record: now.record,
          task,
          session: policy,
          profile: profileOf(registry.view(), task),
        });
      },
    };
  }

  /** Cached while the servers of the task are unchanged. */
  #claimsIn(view: RegistryView | null): NameClaims {
    const servers = namedServers(view, this.#scope.task);
    const known = this.#claims;
    if (known?.servers.length === servers.length && servers.every((record, at) => record === known.servers[at])) {
      return known.names;
    }
    this.#claims = { servers, names: new NameClaims(servers) };
    return this.#claims.names;
  }

  async #list(record: McpServerRecord, policy: SessionPolicy, signal: AbortSignal): Promise<ServerTools> {
    const started = performance.now();
    const { registry, task, pool, troubles } = this.#scope;
    try {
      const listing = pool.listTools(record, { signal });
      const list = await troubles.during(record.server_id, () => pool.step?.(record) ?? null, listing);
      return {
        record,
        ...filterTools(list, record, task, policy, profileOf(registry.view(), task)),
        instructions: list.instructions,
        failure: null,
        durationMs: performance.now() - started,
      };
    } catch (error) {
      const failure = listFailure(error);
      const exclusions = [exclusion(record.server_id, null, deny(failure, 'node', toToolError(error).message))];
      const durationMs = performance.now() - started;
      return { record, tools: [], exclusions, instructions: null, failure, durationMs };
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

const isCancelled = (signal: AbortSignal): boolean =>
  signal.aborted && !(signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError');

function shownBy({ tools, shown: { definitions, systemMessage } }: Injection): ShownTools {
  const named = tools.map(({ name, record: { server_id: server }, tool, annotations }) => ({
    name,
    server,
    tool,
    ...(annotations === null ? {} : { annotations }),
  }));
  return { tools: named, definitions, systemMessage };
}

function changedBy(params: InjectionRequest['params'], unchanged: SessionPolicy, task: TaskPolicy): SessionPolicy {
  let policy = unchanged;
  for (const [key, value] of params) {
    const applied = applyMcpParam(policy, task, key, value);
    if (applied.ok) policy = applied.policy; // the guest thread rejected it already, but is not trusted
  }
  return policy;
}

function toAudit({ serverId, tool, reason, layer, detail }: Exclusion): AuditExclusion {
  return { server_id: serverId, tool_name: tool, reason, layer, detail };
}
