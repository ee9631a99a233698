import { canonicalJson, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import type { RefusedTool } from '../../runtime/durable/journal.ts';
import type { StartedTool } from '../../runtime/durable/tool-journal.ts';
import { type AuditEvent, type CallStarted, writeRefused } from '../../server/audit/event.ts';
import { argumentsFor } from '../../server/audit/kept-arguments.ts';
import { ApprovalGate, type ApprovalOptions } from '../approvals/gate.ts';
import { type ModelToolCall, notInjected } from '../chat/injected-tools.ts';
import type { Exclusion } from '../policy/decision.ts';
import type { CallProgress } from './client/call-sender.ts';
import type { ToolErrorCode } from './client/errors.ts';
import type { ToolOutput } from './client/tool-result.ts';
import { ElicitationDesk } from './elicitation.ts';
import { type GuestScope, revisionOf } from './guest-scope.ts';
import { type CallDesks, type CallObserver, type McpToolCall, RunningCall } from './running-call.ts';

/** The limit that an error speaks of, as the trail names it. */
const budgets: Partial<Record<ToolErrorCode, string>> = {
  mcp_budget_exceeded: 'pool',
  mcp_timeout: 'timeout',
  mcp_output_too_large: 'max_tool_output_bytes',
};

/** Which call the trail and the listeners are told of. */
interface CallNames extends Pick<McpToolCall, 'kind' | 'tool' | 'callId' | 'session'> {
  /** Null for a name that belongs to no server. */
  readonly serverId: string | null;
}

/** How it ended. */
interface CallEnd extends Pick<Extract<AuditEvent, { event: 'tool_call.finished' }>, 'status' | 'reason' | 'revision'> {
  readonly json: string;
  readonly code: ToolErrorCode | null;
  readonly durationMs: number;
}

/** Takes the answer to a call: once, and before the call has even been started where it is known at once. */
export type TakeAnswer = (json: string) => void;

/** Every MCP tool call of one guest, whichever way it came in: it is run, and told to the trail and the listeners. */
export class ToolCalls implements CallObserver {
  readonly #scope: GuestScope;
  readonly #desks: CallDesks;
  readonly #origin: string;
  readonly #inFlight = new Map<RunningCall, TakeAnswer>();
  readonly #unsubscribe: () => void;

  constructor(scope: GuestScope, approvals: ApprovalOptions) {
    this.#scope = scope;
    this.#origin = originOf(scope);
    this.#desks = {
      approvals: new ApprovalGate(approvals, scope),
      elicitations: new ElicitationDesk(approvals, scope),
    };
    this.#unsubscribe = scope.registry.onPolicyChange(() => {
      for (const call of [...this.#inFlight.keys()]) call.reconsider();
    });
  }

  /** Calls that have not ended. */
  get underway(): number {
    return this.#inFlight.size;
  }

  close(): void {
    this.#unsubscribe();
    this.#desks.approvals.close();
    this.#desks.elicitations.close();
  }

  /** One call from end to end. A call that fails is an answer for whoever asked, so this never throws. */
  start(call: McpToolCall, take: TakeAnswer): RunningCall {
    const running = this.#make(call, take);
    this.#begin(running);
    return running;
  }

  /** The same for whoever waits with a signal. */
  async call(call: McpToolCall, signal: AbortSignal): Promise<string> {
    const [json] = await this.callAll([call], signal);
    return json as string;
  }

  /** Calls beside each other, among them some whose answers are known; one signal ends all of them. */
  callAll(calls: readonly (McpToolCall | string)[], signal: AbortSignal): Promise<readonly string[]> {
    return new Promise((resolve) => {
      const answers = calls.map((call) => (typeof call === 'string' ? call : ''));
      const running: RunningCall[] = [];
      const onAbort = () => {
        for (const call of running) call.cancel(signal.reason);
      };
      let open = 0;
      const close = () => {
        if (--open > 0) return;
        signal.removeEventListener('abort', onAbort);
        resolve(answers);
      };
      for (const [at, call] of calls.entries()) {
        if (typeof call === 'string') continue;
        const take = (json: string) => {
          answers[at] = json;
          close();
        };
        running.push(this.#make(call, take));
      }
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
      open = running.length + 1;
      for (const call of running) this.#begin(call);
      close();
    });
  }

  sent(call: RunningCall, args: JsonObject): void {
    if (call.isInTheTrail) return;
    // Almost always what was written is what is sent.
    const text = args === call.given ? call.call.arguments : JSON.stringify(args);
    this.#scope.journal?.started(inTheJournal(call, text));
    this.#audit(this.#started(call.call, text));
    call.isInTheTrail = true;
  }

  progressed({ call }: RunningCall, { progress, total }: CallProgress): void {
    const { session: session_id, callId: request_id, serverId: server_id, tool: tool_name } = call;
    const about = { session_id, request_id, source: 'mcp', server_id, tool_name } as const;
    this.#audit({ event: 'tool_call.progress', ...about, progress, total });
  }

  ended(running: RunningCall, { json, error }: ToolOutput): void {
    const { call, denial, revision } = running;
    const take = this.#inFlight.get(running);
    this.#inFlight.delete(running);
    // It was not made, and is made when the run goes on.
    if (this.#scope.journal?.isInterrupted && !running.isInTheTrail) {
      take?.(json);
      return;
    }
    const durationMs = performance.now() - running.startedAt;
    const code = error?.code ?? null;
    const status = code === null ? 'ok' : denial === null ? 'failed' : 'denied';
    const end = { json, code, status, reason: denial ?? code, revision, durationMs } as const;
    this.#scope.journal?.finished(ordinalOf(call), json, code, running.isInTheTrail ? null : wanted(call));
    this.#finished(call, end, running.isInTheTrail ? null : this.#started(call, call.arguments));
    take?.(json);
  }

  /** A name that was not injected into a send is refused, whatever its form, and leaves the same trail as a call. */
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
      const refused = wanted({ session, kind: undefined, serverId, tool, arguments: text });
      this.#scope.journal?.finished(ordinal, json, 'mcp_policy_denied', refused);
    }
    const end = { json, code: 'mcp_policy_denied', status: 'denied', reason, revision, durationMs: 0 } as const;
    this.#finished(call, end, this.#started(call, text));
    return json;
  }

  /** A call that this node answers itself; null: its arguments are no such thing. It leaves the same trail as any other. */
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
    const end = { json, code, status: code === null ? 'ok' : 'failed', reason: code, revision, durationMs } as const;
    this.#audit(this.#started(call, text));
    this.#finished(call, end, null);
    return json;
  }

  /** What an earlier attempt of the run did is not done again. */
  #begin(running: RunningCall): void {
    const earlier = this.#scope.journal?.earlier(ordinalOf(running.call)) ?? null;
    if (earlier === null) running.start();
    else if (earlier.kind === 'unknown') running.startAgain();
    else {
      const take = this.#inFlight.get(running);
      this.#inFlight.delete(running);
      take?.(earlier.json);
    }
  }

  #make(call: McpToolCall, take: TakeAnswer): RunningCall {
    const { trace } = this.#scope;
    const origin = `${this.#origin}${JSON.stringify(ordinalOf(call))}`;
    const given = parsedArguments(call.arguments);
    const traceparent = trace ? trace.made(call) : undefined;
    const running = new RunningCall(call, given, origin, this.#scope, this.#desks, this, traceparent);
    this.#inFlight.set(running, take);
    return running;
  }

  #started(call: CallNames, text: string): CallStarted {
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
    return call.kind === undefined || call.kind === 'tool' ? started : { ...started, kind: call.kind };
  }

  /** `unsent`: how the call began, which was not told yet because nothing of it reached a server. */
  #finished(call: CallNames, end: CallEnd, unsent: CallStarted | null): void {
    const { json, code, status, reason, revision, durationMs } = end;
    const { session: session_id, callId: request_id, serverId: server_id, tool: tool_name } = call;
    const bytes = Buffer.byteLength(json);
    const budget = code === null ? undefined : budgets[code];
    if (budget) this.#audit({ event: 'budget.hit', session_id, server_id, tool_name, budget });
    // Field by field: objects spread into one another are the dearest part of a call's two events.
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
    const finished = call.kind === undefined || call.kind === 'tool' ? ended : { ...ended, kind: call.kind };
    if (unsent === null) this.#audit(finished);
    else writeRefused(this.#scope.audit, this.#scope.run, unsent, finished);
    const { kind = 'tool', serverId: server, tool, callId, session } = call;
    const outcome = code ?? 'ok';
    const { run, events } = this.#scope;
    const invocation = { source: 'mcp', kind, run, session, server, tool, callId, outcome, durationMs, bytes } as const;
    events.emit(status === 'denied' && reason !== null ? { ...invocation, denial: reason } : invocation);
  }

  #audit(event: AuditEvent): void {
    this.#scope.audit.write(this.#scope.run, event);
  }
}

/** The beginning of what each call tells its server of itself, up to its ordinal. */
function originOf({ run, journal }: GuestScope): string {
  return `"spear/run":${JSON.stringify(run)},"spear/attempt":${journal?.attempt ?? 1},"spear/ordinal":`;
}

const ordinalOf = ({ ordinal, callId }: McpToolCall): string => ordinal ?? callId;

function inTheJournal({ call, revision }: RunningCall, args: string): StartedTool {
  const { session, serverId: server, tool } = call;
  const started = { ordinal: ordinalOf(call), session, server, tool, args: isBlank(args) ? '{}' : args, revision };
  return call.kind === undefined || call.kind === 'tool' ? started : { ...started, kind: call.kind };
}

/** A call that was refused before anybody was told of it. */
function wanted({
  session,
  kind,
  serverId: server,
  tool,
  arguments: args,
}: Pick<McpToolCall, 'session' | 'kind' | 'serverId' | 'tool' | 'arguments'>): RefusedTool {
  return { session, ...(kind === undefined || kind === 'tool' ? {} : { kind }), server, tool, args };
}

/** Undefined: they are no JSON. */
function parsedArguments(text: string): JsonValue | undefined {
  return isBlank(text) ? {} : parseJson(text);
}

/** No arguments. */
const isBlank = (text: string) => text.trim() === '';
