import { abortWith } from '../base/abort.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { decideCall } from '../policy/walk.ts';
import { McpArgumentsError, McpPolicyError } from '../pool/errors.ts';
import type { ToolDescriptor } from '../pool/tool-list.ts';
import { convertError, type ToolOutput } from '../pool/tool-result.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import type { ApprovalGate, GatedCall } from './approval/gate.ts';
import { ApprovalRefused, isOutdated } from './approval/refusal.ts';
import { type GuestScope, revisionOf } from './guest-scope.ts';

/** A call of one MCP tool, from either way in. */
export interface McpToolCall extends GatedCall {
  /** JSON as it was written; empty: no arguments. */
  readonly arguments: string;
  /** Can only lower what the record allows. */
  readonly maxOutputBytes: number | undefined;
}

/** A tool or policy that is another one each time its call is to be sent is not asked about for ever. */
const MAX_APPROVAL_ROUNDS = 4;

/**
 * One call on its way: policy → approval → pool. Policy is asked when it comes, whenever the registry changes meanwhile,
 * and when it is sent. What a server did before its call was stopped is not undone.
 */
export class RunningCall {
  readonly #call: McpToolCall;
  readonly #args: JsonValue | undefined;
  readonly #scope: GuestScope;
  readonly #approvals: ApprovalGate;
  readonly #tellSent: () => void;
  readonly #ended = new AbortController();
  #revocation: McpPolicyError | null = null;
  /** What policy or an approval said last: why not, and by which revision of the registry. */
  denial: string | null = null;
  revision: number | null = null;

  /** `tellSent` puts into the trail that the call is about to be sent; it may be told more than once. */
  constructor(
    call: McpToolCall,
    args: JsonValue | undefined,
    scope: GuestScope,
    approvals: ApprovalGate,
    tellSent: () => void,
  ) {
    this.#call = call;
    this.#args = args;
    this.#scope = scope;
    this.#approvals = approvals;
    this.#tellSent = tellSent;
  }

  /** Never throws: a call that fails is an answer too. While it runs it is in `inFlight`. */
  async run(inFlight: Set<RunningCall>, signal: AbortSignal): Promise<ToolOutput> {
    inFlight.add(this);
    const unlink = abortWith(this.#ended, signal);
    try {
      return await this.#dispatch();
    } catch (error) {
      const cause = this.#revocation ?? error;
      if (cause instanceof ApprovalRefused) this.denial = cause.denial;
      return convertError(cause, Number.MAX_SAFE_INTEGER);
    } finally {
      inFlight.delete(this);
      unlink();
    }
  }

  /** The registry is another one: a call that it does not let through is stopped, wherever it is. */
  reconsider(): void {
    if (this.#revocation !== null) return; // the revision that stopped it stays the one that is told
    try {
      this.#permitted();
    } catch (error) {
      this.#revocation = error as McpPolicyError;
      this.#ended.abort(error);
    }
  }

  async #dispatch(): Promise<ToolOutput> {
    const { serverId, tool, session, maxOutputBytes } = this.#call;
    const args = this.#args;
    let record = this.#permitted();
    if (!isJsonObject(args)) throw new McpArgumentsError(serverId, tool, 'the arguments must be a JSON object');
    for (let round = 1; ; round++) {
      const concerned = this.#approvals.concerns(record, this.#call);
      const grant = concerned ? await this.#approvals.obtain(record, this.#call, args, this.#ended.signal) : null;
      if (concerned) await this.#requireTrail();
      let stopped: unknown; // the pool makes an answer of it, and an answer does not say whether to ask again
      const output = await this.#scope.pool.callTool(record, {
        tool,
        args,
        owner: `${this.#scope.run}/${session}`,
        signal: this.#ended.signal,
        ...(maxOutputBytes === undefined ? {} : { maxOutputBytes }),
        ...(this.#scope.audit.written ? { announce: () => this.#announce() } : {}),
        beforeDispatch: (definition) => {
          try {
            this.#admit(args, definition, grant);
            this.#tellSent();
          } catch (error) {
            stopped = error;
            throw error;
          }
        },
      });
      this.#approvals.drop(grant);
      if (this.#revocation !== null) throw this.#revocation; // its answer is dropped, even if it came in time
      if (stopped === undefined) return output;
      if (!isOutdated(stopped) || round === MAX_APPROVAL_ROUNDS) throw stopped;
      record = this.#permitted();
    }
  }

  /** Where the trail must have the call before its server does. */
  async #announce(): Promise<void> {
    this.#tellSent();
    await this.#requireTrail();
  }

  /** Waits for the lines so far, where the node wants that. @throws McpPolicyError if they cannot be written */
  async #requireTrail(): Promise<void> {
    const { written } = this.#scope.audit;
    if (written === undefined || (await written())) return;
    const { serverId, tool } = this.#call;
    this.denial = 'audit_failed';
    const why = 'the audit trail cannot be written, and this node makes no call without it (audit.on_failure)';
    throw new McpPolicyError(serverId, `${tool}: ${why}`);
  }

  /** What policy says of the call at this moment. @throws McpPolicyError */
  #permitted(): McpServerRecord {
    const { serverId, tool, sessionPolicy } = this.#call;
    const { registry, task } = this.#scope;
    this.revision = revisionOf(this.#scope);
    const decision = decideCall(registry.view(), task, sessionPolicy, serverId, tool);
    if (decision.allowed) return decision.record;
    this.denial = decision.reason;
    throw new McpPolicyError(serverId, `${tool}: ${decision.detail}`);
  }

  /** At the moment it is sent: policy again, and that what was approved is what is done. */
  #admit(args: JsonObject, definition: ToolDescriptor, grant: number | null): void {
    const record = this.#permitted();
    if (this.#approvals.concerns(record, this.#call)) {
      this.#approvals.redeem(record, this.#call, args, definition, grant);
    }
  }
}
