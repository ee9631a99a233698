import { canonicalJson } from '../../base/json.ts';
import type { RefusedTool } from '../../runtime/durable/journal.ts';
import { argumentsFor } from '../../server/audit/arguments.ts';
import { type AuditEvent, type CallStarted, writeRefused } from '../../server/audit/event.ts';
import type { GatedCall } from '../approvals/gate.ts';
import { type ModelToolCall, notInjected } from '../chat/injected-tools.ts';
import type { Exclusion } from '../policy/decision.ts';
import type { CallProgress } from './client/call-sender.ts';
import type { ToolErrorCode } from './client/errors.ts';
import type { OfferKind } from './client/lists.ts';
import { type GuestScope, revisionOf } from './guest-scope.ts';

/** A call of one MCP tool, a read or a prompt, by the guest or by its model. */
export interface McpToolCall extends GatedCall {
  /** JSON as it was written; empty: no arguments. */
  readonly arguments: string;
  /** Can only lower what the record allows. */
  readonly maxOutputBytes: number | undefined;
}

/** Identifies a call in the audit log and for listeners. */
interface CallIdentity extends Pick<McpToolCall, 'kind' | 'tool' | 'callId' | 'session'> {
  /** Null for a name that belongs to no server. */
  readonly serverId: string | null;
}

/** Outcome of a call. */
interface CallOutcome
  extends Pick<Extract<AuditEvent, { event: 'tool_call.finished' }>, 'status' | 'reason' | 'revision'> {
  readonly json: string;
  readonly code: ToolErrorCode | null;
  readonly durationMs: number;
}

/** The budget behind an error code, as the audit log names it. */
const budgets: Partial<Record<ToolErrorCode, string>> = {
  mcp_budget_exceeded: 'pool',
  mcp_timeout: 'timeout',
  mcp_output_too_large: 'max_tool_output_bytes',
};

/** Writes the calls of one guest to the audit log, the journal and the listeners of tool invocations. */
export class CallRecords {
  readonly #scope: GuestScope;

  constructor(scope: GuestScope) {
    this.#scope = scope;
  }

  /** The call is about to be dispatched with these arguments. */
  dispatched(call: McpToolCall, args: string, revision: number | null): void {
    const { session, serverId: server, tool } = call;
    const started = { ordinal: ordinalOf(call), session, server, tool, args: isBlank(args) ? '{}' : args, revision };
    const kind = offerKind(call);
    this.#scope.journal?.started(kind === null ? started : { ...started, kind });
    this.#audit(this.#started(call, args));
  }

  progressed(call: McpToolCall, { progress, total }: CallProgress): void {
    const { session: session_id, callId: request_id, serverId: server_id, tool: tool_name } = call;
    const about = { session_id, request_id, source: 'mcp', server_id, tool_name } as const;
    this.#audit({ event: 'tool_call.progress', ...about, progress, total });
  }

  /** `wasDispatched`: its start is in the audit log and in the journal already. */
  finished(call: McpToolCall, outcome: CallOutcome, wasDispatched: boolean): void {
    const refused = wasDispatched ? null : refusedTool(call);
    this.#scope.journal?.finished(ordinalOf(call), outcome.json, outcome.code, refused);
    this.#finished(call, outcome, wasDispatched ? null : this.#started(call, call.arguments));
  }

  /** A model called a name that was not injected into its send. Returns the error; it is recorded like a call. */
  refuse(
    { id: callId, name, arguments: text, ordinal }: ModelToolCall,
    session: string,
    why: Exclusion | null,
  ): string {
    const json = notInjected(name, why?.detail);
    const call = { serverId: why?.serverId ?? null, tool: why?.tool ?? name, callId, session };
    const reason = why?.reason ?? 'not_injected';
    const revision = revisionOf(this.#scope);
    if (call.serverId !== null && ordinal !== undefined) {
      const { serverId, tool } = call;
      const refused = refusedTool({ session, kind: undefined, serverId, tool, arguments: text });
      this.#scope.journal?.finished(ordinal, json, 'mcp_policy_denied', refused);
    }
    const outcome = { json, code: 'mcp_policy_denied', status: 'denied', reason, revision, durationMs: 0 } as const;
    this.#finished(call, outcome, this.#started(call, text));
    return json;
  }

  /** A call that this node answers itself; null: its arguments are invalid. It is recorded like a call. */
  answer(
    { id: callId, name: tool, arguments: text }: ModelToolCall,
    session: string,
    found: string | null,
    durationMs = 0,
  ): string {
    const call = { serverId: null, tool, callId, session };
    const code = found === null ? 'mcp_invalid_arguments' : null;
    const message = `the arguments of ${tool} do not match its parameters`;
    const json = found ?? canonicalJson({ error: { code: 'mcp_invalid_arguments', message, retryable: false } });
    const revision = revisionOf(this.#scope);
    const status = code === null ? 'ok' : 'failed';
    this.#audit(this.#started(call, text));
    this.#finished(call, { json, code, status, reason: code, revision, durationMs }, null);
    return json;
  }

  #started(call: CallIdentity, text: string): CallStarted {
    const args = argumentsFor(this.#scope.audit, isBlank(text) ? '{}' : text);
    const { session: session_id, callId: request_id, serverId: server_id, tool: tool_name } = call;
    const started = {
      event: 'tool_call.started',
      session_id,
      request_id,
      source: 'mcp',
      server_id,
      tool_name,
      args,
    } as const;
    const kind = offerKind(call);
    return kind === null ? started : { ...started, kind };
  }

  /** `unsent`: the start event of a call that was never dispatched; it is written together with the end. */
  #finished(call: CallIdentity, outcome: CallOutcome, unsent: CallStarted | null): void {
    const { json, code, status, reason, revision, durationMs } = outcome;
    const { session: session_id, callId: request_id, serverId: server_id, tool: tool_name } = call;
    const bytes = Buffer.byteLength(json);
    const budget = code === null ? undefined : budgets[code];
    if (budget) this.#audit({ event: 'budget.hit', session_id, server_id, tool_name, budget });
    // perf: bench/topics/mcp.ts "stdio, one at a time": field by field, because spreading objects is slow here.
    const ended = {
      event: 'tool_call.finished',
      session_id,
      request_id,
      source: 'mcp',
      server_id,
      tool_name,
      status,
      reason,
      duration_ms: Math.round(durationMs),
      output_bytes: bytes,
      revision,
    } as const;
    const offer = offerKind(call);
    const finished = offer === null ? ended : { ...ended, kind: offer };
    if (unsent === null) this.#audit(finished);
    else writeRefused(this.#scope.audit, this.#scope.run, unsent, finished);
    const { kind = 'tool', serverId: server, tool, callId, session } = call;
    const { run, events } = this.#scope;
    const invocation = {
      source: 'mcp',
      kind,
      run,
      session,
      server,
      tool,
      callId,
      outcome: code ?? 'ok',
      durationMs,
      bytes,
    } as const;
    events.emit(status === 'denied' && reason !== null ? { ...invocation, denial: reason } : invocation);
  }

  #audit(event: AuditEvent): void {
    this.#scope.audit.write(this.#scope.run, event);
  }
}

/** Identifies the call in the journal, the same in every attempt of the run. */
export const ordinalOf = ({ ordinal, callId }: McpToolCall): string => ordinal ?? callId;

/** No arguments. */
export const isBlank = (text: string) => text.trim() === '';

/** Null: a tool, whose records name no kind. */
function offerKind({ kind }: Pick<McpToolCall, 'kind'>): OfferKind | null {
  return kind === undefined || kind === 'tool' ? null : kind;
}

function refusedTool(call: Pick<McpToolCall, 'session' | 'kind' | 'serverId' | 'tool' | 'arguments'>): RefusedTool {
  const { session, serverId: server, tool, arguments: args } = call;
  const kind = offerKind(call);
  return { session, ...(kind === null ? {} : { kind }), server, tool, args };
}
