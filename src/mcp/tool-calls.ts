import { type AuditEvent, type CallStarted, writeRefused } from '../audit/event.ts';
import { type JsonValue, parseJson } from '../base/json.ts';
import { type ModelToolCall, notInjected } from '../chat/injected-tools.ts';
import type { Exclusion } from '../policy/decision.ts';
import type { ToolErrorCode } from '../pool/errors.ts';
import { ApprovalGate, type ApprovalOptions } from './approval/gate.ts';
import { type GuestScope, revisionOf, shownArguments } from './guest-scope.ts';
import { type McpToolCall, RunningCall } from './running-call.ts';

/** The limit that an error speaks of, as the trail names it. */
const budgets: Partial<Record<ToolErrorCode, string>> = {
  mcp_budget_exceeded: 'pool',
  mcp_timeout: 'timeout',
  mcp_output_too_large: 'max_tool_output_bytes',
};

/** Which call the trail and the listeners are told of. */
interface ToldCall extends Pick<McpToolCall, 'tool' | 'callId' | 'session'> {
  /** Null for a name that belongs to no server. */
  readonly serverId: string | null;
}

/** How it ended. */
interface CallEnd extends Pick<Extract<AuditEvent, { event: 'tool_call.finished' }>, 'status' | 'reason' | 'revision'> {
  readonly json: string;
  readonly code: ToolErrorCode | null;
  readonly durationMs: number;
}

/** Every MCP tool call of one guest, whichever way it came in: it is run, and told to the trail and the listeners. */
export class ToolCalls {
  readonly #scope: GuestScope;
  readonly #approvals: ApprovalGate;
  readonly #inFlight = new Set<RunningCall>();
  readonly #unsubscribe: () => void;

  constructor(scope: GuestScope, approvals: ApprovalOptions) {
    this.#scope = scope;
    this.#approvals = new ApprovalGate(approvals, scope);
    this.#unsubscribe = scope.registry.onChange(() => {
      for (const call of [...this.#inFlight]) call.reconsider();
    });
  }

  close(): void {
    this.#unsubscribe();
    this.#approvals.close();
  }

  /** One call from end to end. A call that fails is an answer for whoever asked, so this never throws. */
  async call(call: McpToolCall, signal: AbortSignal): Promise<string> {
    const started = performance.now();
    const args = parsedArguments(call.arguments);
    let isSent = false;
    const running = new RunningCall(call, args, this.#scope, this.#approvals, () => {
      if (!isSent) this.#audit(this.#started(call, args));
      isSent = true;
    });
    const { json, error } = await running.run(this.#inFlight, signal);
    const durationMs = performance.now() - started;
    const { denial, revision } = running;
    const code = error?.code ?? null;
    const status = code === null ? 'ok' : denial === null ? 'failed' : 'denied';
    const end = { json, code, status, reason: denial ?? code, revision, durationMs } as const;
    this.#finished(call, end, isSent ? null : this.#started(call, args));
    return json;
  }

  /** A name that was not injected into a send is refused, whatever its form, and leaves the same trail as a call. */
  refuse({ id: callId, name, arguments: text }: ModelToolCall, session: string, why: Exclusion | null): string {
    const json = notInjected(name, why?.detail);
    const call = { serverId: why?.serverId ?? null, tool: why?.tool ?? name, callId, session };
    const reason = why?.reason ?? 'not_injected';
    const revision = revisionOf(this.#scope);
    const end = { json, code: 'mcp_policy_denied', status: 'denied', reason, revision, durationMs: 0 } as const;
    this.#finished(call, end, this.#started(call, parsedArguments(text)));
    return json;
  }

  #started(call: ToldCall, args: JsonValue | undefined): CallStarted {
    return { event: 'tool_call.started', ...inTheTrail(call), args: shownArguments(this.#scope, args) };
  }

  /** `unsent`: how the call began, which was not told yet because nothing of it reached a server. */
  #finished(call: ToldCall, end: CallEnd, unsent: CallStarted | null): void {
    const { json, code, status, reason, revision, durationMs } = end;
    const about = inTheTrail(call);
    const { session_id, server_id, tool_name } = about;
    const bytes = Buffer.byteLength(json);
    const budget = code === null ? undefined : budgets[code];
    if (budget) this.#audit({ event: 'budget.hit', session_id, server_id, tool_name, budget });
    const duration_ms = Math.round(durationMs);
    const result = { status, reason, duration_ms, output_bytes: bytes, revision };
    const finished = { event: 'tool_call.finished', ...about, ...result } as const;
    if (unsent === null) this.#audit(finished);
    else writeRefused(this.#scope.audit, this.#scope.run, unsent, finished);
    const { serverId: server, tool, callId, session } = call;
    const outcome = code ?? 'ok';
    const { run, events } = this.#scope;
    events.emit({ source: 'mcp', run, session, server, tool, callId, outcome, durationMs, bytes });
  }

  #audit(event: AuditEvent): void {
    this.#scope.audit.write(this.#scope.run, event);
  }
}

function inTheTrail({ session, callId, serverId, tool }: ToldCall) {
  return { session_id: session, request_id: callId, source: 'mcp', server_id: serverId, tool_name: tool } as const;
}

/** Undefined: they are no JSON. */
function parsedArguments(text: string): JsonValue | undefined {
  return text.trim() === '' ? {} : parseJson(text);
}
