import type { Decision } from '../policy/decision.ts';
import { McpApprovalError, McpArgumentsError, McpPolicyError, type ToolErrorCode } from '../pool/errors.ts';
import type { McpPool } from '../pool/pool.ts';
import { convertError, type ToolOutput } from '../pool/tool-result.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import type { AuditEvent } from '../telemetry/audit-event.ts';
import { redactArguments } from '../telemetry/redact-arguments.ts';
import { approvalMode } from './approval.ts';
import type { ToolInvocation } from './tool-events.ts';

/** A call of one MCP tool, from either way in. */
export interface ToolCall {
  readonly serverId: string;
  readonly tool: string;
  /** JSON as it was written; empty: no arguments. */
  readonly arguments: string;
  readonly callId: string;
  readonly session: string;
  /** Calls of one owner queue behind each other, those of different owners take turns. */
  readonly owner: string;
  readonly maxOutputBytes: number | undefined;
  /** Policy as it stands at this moment; asked again whenever the call has waited. */
  readonly decide: () => Decision & { readonly record?: McpServerRecord };
}

export interface CallPorts {
  readonly pool: Pick<McpPool, 'callTool'>;
  readonly audit: (event: AuditEvent) => void;
  readonly emit: (invocation: Omit<ToolInvocation, 'run'>) => void;
}

/** The limit that an error speaks of, as the trail names it. */
const budgets: Partial<Record<ToolErrorCode, string>> = {
  mcp_budget_exceeded: 'pool',
  mcp_timeout: 'timeout',
  mcp_output_too_large: 'max_tool_output_bytes',
};

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
  const args = parseArguments(call.arguments);
  ports.audit({
    event: 'tool_call.started',
    session,
    request,
    source: 'mcp',
    server,
    tool,
    arguments: redactArguments(args),
  });
  const state: { denial: string | null } = { denial: null };
  const output = await dispatch(call, args, ports, inFlight, signal, state);
  const durationMs = performance.now() - started;
  const code = output.error?.code ?? null;
  const bytes = Buffer.byteLength(output.json);
  const budget = code === null ? undefined : budgets[code];
  if (budget) ports.audit({ event: 'budget.hit', session, server, tool, budget });
  ports.audit({
    event: 'tool_call.finished',
    session,
    request,
    source: 'mcp',
    server,
    tool,
    status: code === null ? 'ok' : state.denial === null ? 'failed' : 'denied',
    reason: state.denial ?? code,
    duration_ms: Math.round(durationMs),
    bytes,
  });
  ports.emit({ source: 'mcp', session, server, tool, callId: request, outcome: code ?? 'ok', durationMs, bytes });
  return output.json;
}

async function dispatch(
  call: ToolCall,
  args: JsonValue | undefined,
  { pool }: CallPorts,
  inFlight: InFlight,
  signal: AbortSignal,
  state: { denial: string | null },
): Promise<ToolOutput> {
  const revoked = new AbortController();
  const permitted = (): McpServerRecord => {
    const decision = call.decide();
    if (!decision.allowed) {
      state.denial = decision.reason;
      throw new McpPolicyError(call.serverId, `${call.tool}: ${decision.detail}`);
    }
    return decision.record as McpServerRecord;
  };
  const askAgain = () => {
    try {
      permitted();
    } catch (error) {
      revoked.abort(error);
    }
  };
  inFlight.add(askAgain);
  try {
    const record = permitted();
    if (!isJsonObject(args)) {
      throw new McpArgumentsError(call.serverId, call.tool, 'the arguments must be a JSON object');
    }
    requireApproval(record, call, state);
    const output = await pool.callTool(record, {
      tool: call.tool,
      args: args as JsonObject,
      owner: call.owner,
      signal: AbortSignal.any([signal, revoked.signal]),
      ...(call.maxOutputBytes === undefined ? {} : { maxOutputBytes: call.maxOutputBytes }),
      beforeDispatch: () => requireApproval(permitted(), call, state),
    });
    revoked.signal.throwIfAborted(); // its answer is dropped, even if it came in time
    return output;
  } catch (error) {
    const cause = revoked.signal.aborted ? revoked.signal.reason : error;
    return convertError(cause, Number.MAX_SAFE_INTEGER);
  } finally {
    inFlight.delete(askAgain);
  }
}

/** Nobody can be asked yet, so whatever needs an approval is denied. */
function requireApproval(record: McpServerRecord, call: ToolCall, state: { denial: string | null }): void {
  const mode = approvalMode(record, call.tool);
  if (mode === 'never') return;
  state.denial = 'approval_required';
  throw new McpApprovalError(
    call.serverId,
    `${call.tool} needs an approval (approval_policy: ${mode}), and there is nobody here to give it`,
  );
}

function parseArguments(text: string): JsonValue | undefined {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
