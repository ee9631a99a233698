import type { AuditArguments, AuditEvent } from '../audit/event.ts';
import { isJsonObject, type JsonValue } from '../base/json.ts';
import type { Decision } from '../policy/decision.ts';
import { McpArgumentsError, McpPolicyError, type ToolErrorCode } from '../pool/errors.ts';
import type { McpPool } from '../pool/pool.ts';
import { convertError, type ToolOutput } from '../pool/tool-result.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import type { ApprovalGate, GatedCall } from './approval/gate.ts';
import { ApprovalRefused, isOutdated } from './approval/refusal.ts';
import type { ToolInvocation } from './tool-events.ts';

/** A call of one MCP tool, from either way in. */
export interface ToolCall extends GatedCall {
  /** JSON as it was written; empty: no arguments. */
  readonly arguments: string;
  /** Calls of one owner queue behind each other, those of different owners take turns. */
  readonly owner: string;
  readonly maxOutputBytes: number | undefined;
  /** Policy as it stands at this moment; asked again whenever the call has waited. */
  readonly decide: () => Decision & { readonly revision: number | null };
}

export interface CallPorts {
  readonly pool: Pick<McpPool, 'callTool'>;
  readonly approvals: ApprovalGate;
  readonly audit: (event: AuditEvent) => void;
  readonly showArguments: (args: JsonValue | undefined) => AuditArguments;
  readonly emit: (invocation: Omit<ToolInvocation, 'run'>) => void;
}

/** The limit that an error speaks of, as the trail names it. */
const budgets: Partial<Record<ToolErrorCode, string>> = {
  mcp_budget_exceeded: 'pool',
  mcp_timeout: 'timeout',
  mcp_output_too_large: 'max_tool_output_bytes',
};

/** A tool or policy that is another one each time its call is to be sent is not asked about for ever. */
const MAX_APPROVAL_ROUNDS = 4;

/** Calls that have been let through and may have to be stopped: asked again when the registry changes. */
export type InFlight = Set<() => void>;

/**
 * One call from end to end: arguments → policy → approval → pool → event. A call that fails is an answer for whoever
 * asked, so this never throws. What a server did before its call was stopped is not undone.
 */
export async function callTool(
  call: ToolCall,
  ports: CallPorts,
  inFlight: InFlight,
  signal: AbortSignal,
): Promise<string> {
  const started = performance.now();
  const { serverId: server, tool, session, callId: request } = call;
  const about = {
    session_id: session,
    request_id: request,
    source: 'mcp',
    server_id: server,
    tool_name: tool,
  } as const;
  const args = parseArguments(call.arguments);
  ports.audit({ event: 'tool_call.started', ...about, args: ports.showArguments(args) });
  const state: CallState = { denial: null, revision: null };
  const output = await dispatch(call, args, ports, inFlight, signal, state);
  const durationMs = performance.now() - started;
  const code = output.error?.code ?? null;
  const bytes = Buffer.byteLength(output.json);
  const budget = code === null ? undefined : budgets[code];
  if (budget) {
    ports.audit({ event: 'budget.hit', session_id: session, server_id: server, tool_name: tool, budget });
  }
  ports.audit({
    event: 'tool_call.finished',
    ...about,
    status: code === null ? 'ok' : state.denial === null ? 'failed' : 'denied',
    reason: state.denial ?? code,
    duration_ms: Math.round(durationMs),
    output_bytes: bytes,
    revision: state.revision,
  });
  ports.emit({ source: 'mcp', session, server, tool, callId: request, outcome: code ?? 'ok', durationMs, bytes });
  return output.json;
}

/** What policy said last: why not, and by which revision of the registry. */
interface CallState {
  denial: string | null;
  revision: number | null;
}

async function dispatch(
  call: ToolCall,
  args: JsonValue | undefined,
  { pool, approvals }: CallPorts,
  inFlight: InFlight,
  signal: AbortSignal,
  state: CallState,
): Promise<ToolOutput> {
  const revoked = new AbortController();
  // By hand: AbortSignal.any costs a call more than all its policy.
  const ended = new AbortController();
  const onCancel = () => ended.abort(signal.reason);
  const permitted = (): McpServerRecord => {
    const decision = call.decide();
    state.revision = decision.revision;
    if (!decision.allowed) {
      state.denial = decision.reason;
      throw new McpPolicyError(call.serverId, `${call.tool}: ${decision.detail}`);
    }
    return decision.record;
  };
  const askAgain = () => {
    if (revoked.signal.aborted) return; // the revision that stopped it stays the one that is told
    try {
      permitted();
    } catch (error) {
      revoked.abort(error);
      ended.abort(error);
    }
  };
  inFlight.add(askAgain);
  signal.addEventListener('abort', onCancel, { once: true });
  if (signal.aborted) onCancel();
  try {
    let record = permitted();
    if (!isJsonObject(args)) {
      throw new McpArgumentsError(call.serverId, call.tool, 'the arguments must be a JSON object');
    }
    for (let round = 1; ; round++) {
      const grant = approvals.concerns(record, call) ? await approvals.obtain(record, call, args, ended.signal) : null;
      let stopped: unknown; // the pool makes an answer of it, and an answer does not say whether to ask again
      const output = await pool.callTool(record, {
        tool: call.tool,
        args,
        owner: call.owner,
        signal: ended.signal,
        ...(call.maxOutputBytes === undefined ? {} : { maxOutputBytes: call.maxOutputBytes }),
        beforeDispatch: (tool) => {
          try {
            const now = permitted();
            if (approvals.concerns(now, call)) approvals.redeem(now, call, args, tool, grant);
          } catch (error) {
            stopped = error;
            throw error;
          }
        },
      });
      approvals.drop(grant);
      revoked.signal.throwIfAborted(); // its answer is dropped, even if it came in time
      if (stopped === undefined) return output;
      if (!isOutdated(stopped) || round === MAX_APPROVAL_ROUNDS) throw stopped;
      record = permitted();
    }
  } catch (error) {
    const cause = revoked.signal.aborted ? revoked.signal.reason : error;
    if (cause instanceof ApprovalRefused) state.denial = cause.denial;
    return convertError(cause, Number.MAX_SAFE_INTEGER);
  } finally {
    inFlight.delete(askAgain);
    signal.removeEventListener('abort', onCancel);
  }
}

/** Undefined: they are no JSON. */
export function parseArguments(text: string): JsonValue | undefined {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
