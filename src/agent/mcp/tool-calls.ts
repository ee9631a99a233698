import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import type { EarlierCall } from '../../runtime/durable/tool-journal.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { ApprovalGate, type ApprovalOptions } from '../approvals/gate.ts';
import { ApprovalRefused, isOutdated } from '../approvals/request.ts';
import { compilePatterns } from '../policy/pattern.ts';
import { uriProblem } from '../policy/resource-uri.ts';
import { CallRecords, isBlank, type McpToolCall, ordinalOf } from './call-records.ts';
import type { CallProgress } from './client/call-sender.ts';
import type { Question, QuestionReply } from './client/elicitation/question.ts';
import {
  McpArgumentsError,
  McpCancelledError,
  McpError,
  McpOutcomeUnknownError,
  McpPolicyError,
  McpStoppedError,
} from './client/errors.ts';
import type { CallHandle, PoolCall } from './client/server-call.ts';
import type { ToolDescriptor } from './client/tool-list.ts';
import { convertError, type ToolOutput } from './client/tool-result.ts';
import { ElicitationService } from './elicitation.ts';
import { type GuestScope, revisionOf } from './guest-scope.ts';

/*
 * The governed tool calls of one guest: journal, policy, approval, dispatch to the pool, audit events, result.
 *
 * Invariants
 * - A call that an earlier attempt of the run finished is answered from the journal. A call that the earlier attempt may
 *   have dispatched is repeated only if its record declares it repeatable or an approver permits the repetition.
 * - Policy is evaluated when the call starts, on every registry change while it is pending, and immediately before the
 *   dispatch, together with the redemption of its approval.
 * - The audit event `tool_call.started` and the journal entry precede the dispatch; `tool_call.finished` is written once.
 * - If no approval is needed and the connection is ready, the call is dispatched synchronously inside `start()`.
 * - The result of a call that policy revoked while it was in flight is dropped.
 *
 * Ownership: `ToolCalls` holds a `ToolCall` until it ends. A call that fails has a result too, so nothing here throws at
 * the caller. Cancelling a dispatched call does not undo what the server already did.
 *
 * Not handled here: slots, sessions, deadlines and retries below the dispatch (client/server-call.ts).
 */

/** Receives the result of a call, exactly once, possibly before `start` returns. */
export type TakeAnswer = (json: string) => void;

/** Minimum interval between recorded progress events of one call. */
export const PROGRESS_PAUSE_MS = 10_000;

/** Approvals requested for one call whose tool definition or policy keeps changing before its dispatch. */
const MAX_APPROVAL_ROUNDS = 4;

/** What all calls of one guest share. */
interface CallContext {
  readonly scope: GuestScope;
  readonly approvals: ApprovalGate;
  readonly elicitation: ElicitationService;
  readonly records: CallRecords;
  readonly inFlight: Set<ToolCall>;
}

/** All tool calls of one guest that have not ended. */
export class ToolCalls {
  /** Records calls that never reach the pool. */
  readonly records: CallRecords;
  readonly #context: CallContext;
  readonly #unsubscribe: () => void;

  constructor(scope: GuestScope, approvals: ApprovalOptions) {
    this.records = new CallRecords(scope);
    const inFlight = new Set<ToolCall>();
    this.#context = {
      scope,
      approvals: new ApprovalGate(approvals, scope),
      elicitation: new ElicitationService(approvals, scope),
      records: this.records,
      inFlight,
    };
    this.#unsubscribe = scope.registry.onPolicyChange(() => {
      for (const call of [...inFlight]) call.reconsider();
    });
  }

  /** Calls that have not ended. */
  get underway(): number {
    return this.#context.inFlight.size;
  }

  close(): void {
    this.#unsubscribe();
    this.#context.approvals.close();
    this.#context.elicitation.close();
  }

  /** Runs one call. Never throws. */
  start(call: McpToolCall, take: TakeAnswer): ToolCall {
    const started = new ToolCall(call, this.#context, take);
    started.start();
    return started;
  }

  async call(call: McpToolCall, signal: AbortSignal): Promise<string> {
    const [json] = await this.callAll([call], signal);
    return json as string;
  }

  /** Runs calls concurrently; texts are results that are known already. The signal cancels all of them. */
  callAll(calls: readonly (McpToolCall | string)[], signal: AbortSignal): Promise<readonly string[]> {
    return new Promise((resolve) => {
      const answers = calls.map((call) => (typeof call === 'string' ? call : ''));
      const running: ToolCall[] = [];
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
        running.push(new ToolCall(call, this.#context, take));
      }
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
      open = running.length + 1;
      for (const call of running) call.start();
      close();
    });
  }
}

/** State machine of one governed call: policy → approval → dispatch → result. */
export class ToolCall implements PoolCall {
  readonly kind: CallKind | undefined;
  readonly tool: string;
  readonly owner: string;
  readonly meta: JsonObject;
  readonly traceparent: string | undefined;
  readonly maxOutputBytes: number | undefined;
  readonly keepsMeta: boolean;
  readonly #call: McpToolCall;
  readonly #context: CallContext;
  readonly #take: TakeAnswer;
  readonly #startedAt = performance.now();
  /** The arguments, of any type; undefined: no JSON. */
  readonly #given: JsonValue | undefined;
  #nextProgressMs = 0;
  #round = 1;
  #approval: AbortController | null = null;
  #grant: number | null = null;
  #poolCall: CallHandle | null = null;
  /** The tool as its server lists it; null until the call is about to be dispatched. */
  #definition: ToolDescriptor | null = null;
  /** Error that prevented the dispatch. Kept beside the output, which does not say whether to request a new approval. */
  #dispatchError: unknown;
  /** Why the call has to end early. */
  #cancelled: McpError | null = null;
  #revocation: McpPolicyError | null = null;
  /** Whether the audit log and the journal have the dispatch. */
  #isRecorded = false;
  /** The last denial by policy or approval, and the revision of the registry that was asked. */
  #denial: string | null = null;
  #revision: number | null = null;

  constructor(call: McpToolCall, context: CallContext, take: TakeAnswer) {
    const { run, journal, trace } = context.scope;
    this.#call = call;
    this.#context = context;
    this.#take = take;
    this.#given = isBlank(call.arguments) ? {} : parseJson(call.arguments);
    this.kind = call.kind;
    this.tool = call.tool;
    this.owner = `${run}/${call.session}`;
    this.maxOutputBytes = call.maxOutputBytes;
    this.keepsMeta = call.sessionPolicy === null;
    this.traceparent = trace?.made(call);
    this.meta = {
      'spear/run': run,
      'spear/attempt': journal?.attempt ?? 1,
      'spear/ordinal': ordinalOf(call),
      ...(this.traceparent === undefined ? {} : { traceparent: this.traceparent }),
    };
    context.inFlight.add(this);
  }

  /** Set if an approval has to be claimed, or the audit log or the journal flushed, before the server has the call. */
  get announce(): ((definition: ToolDescriptor, args: JsonObject) => Promise<void>) | undefined {
    if (!this.#isFlushedLater() && !this.#context.approvals.mustClaim(this.#grant)) return undefined;
    return (definition, args) => this.#announce(definition, args);
  }

  /** The pool receives the call once the arguments are known to be an object. */
  get args(): JsonObject {
    return this.#given as JsonObject;
  }

  /** Never throws: a failed call has a result too. */
  start(): void {
    const { journal } = this.#context.scope;
    const earlier: EarlierCall | null = journal?.earlier(ordinalOf(this.#call)) ?? null;
    if (earlier === null) this.#start();
    else if (earlier.kind === 'unknown') this.#startAgain();
    else {
      this.#context.inFlight.delete(this);
      this.#take(earlier.json);
    }
  }

  cancel(reason: unknown): void {
    const isOurs = reason instanceof McpError;
    this.#stop(isOurs ? reason : new McpCancelledError(this.#call.serverId, 'the call was cancelled'));
  }

  /** The registry changed: cancels the call if policy denies it now. */
  reconsider(): void {
    if (this.#revocation !== null) return; // the audit log names the first revision that denied the call
    try {
      this.#permitted();
    } catch (error) {
      this.#revocation = error as McpPolicyError;
      this.#stop(this.#revocation);
    }
  }

  beforeDispatch(definition: ToolDescriptor, args: JsonObject): void {
    const { approvals } = this.#context;
    try {
      this.#definition = definition;
      const record = this.#permitted();
      if (approvals.concerns(record, this.#call)) approvals.redeem(record, this.#call, args, definition, this.#grant);
      this.#recordDispatch(args);
    } catch (error) {
      this.#dispatchError = error;
      throw error;
    }
  }

  asked(question: Question, signal: AbortSignal): Promise<QuestionReply> {
    return this.#context.elicitation.ask(this.#call, question, signal);
  }

  progressed(progress: CallProgress): void {
    const now = performance.now();
    if (now < this.#nextProgressMs) return;
    this.#nextProgressMs = now + PROGRESS_PAUSE_MS;
    this.#context.records.progressed(this.#call, progress);
  }

  finished(output: ToolOutput): void {
    this.#poolCall = null;
    this.#dropGrant();
    // Cancelled by the pool because its server was removed; the registry notifies the pool first, so policy may deny now.
    if (output.error?.code === 'mcp_cancelled' && this.#cancelled === null) this.reconsider();
    const refusal = this.#dispatchError;
    if (this.#revocation !== null) this.#fail(this.#revocation);
    else if (refusal === undefined) this.#end(output);
    else if (!isOutdated(refusal) || this.#round === MAX_APPROVAL_ROUNDS) this.#fail(refusal);
    else this.#requestApprovalAgain();
  }

  #start(): void {
    try {
      const { serverId } = this.#call;
      const problem = this.kind === 'resource' ? uriProblem(this.tool) : null;
      if (problem !== null) throw new McpArgumentsError(serverId, this.tool, `the uri ${problem}`);
      const record = this.#permitted();
      if (!isJsonObject(this.#given)) {
        throw new McpArgumentsError(serverId, this.tool, 'the arguments must be a JSON object');
      }
      this.#approveOrDispatch(record);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** An earlier attempt may have dispatched the call, with an unknown outcome. */
  #startAgain(): void {
    try {
      const record = this.#permitted();
      if (compilePatterns(record.repeatable)(this.tool)) this.#start();
      else this.#repeat(record).catch((error) => this.#fail(error));
    } catch (error) {
      this.#fail(error);
    }
  }

  async #repeat(record: McpServerRecord): Promise<void> {
    this.#approval ??= new AbortController();
    const given = this.#given;
    const grant =
      isJsonObject(given) &&
      (await this.#context.approvals.mayRepeat(record, this.#call, given, this.#approval.signal));
    if (grant === false) throw new McpOutcomeUnknownError(this.#call.serverId, this.tool);
    // The permission to repeat the call includes the approval of the call.
    this.#grant = grant;
    this.#dispatch(this.#permitted());
  }

  #stop(error: McpError): void {
    this.#cancelled ??= error;
    this.#approval?.abort(error);
    this.#poolCall?.cancel(error);
  }

  #requestApprovalAgain(): void {
    this.#round += 1;
    try {
      this.#approveOrDispatch(this.#permitted());
    } catch (error) {
      this.#fail(error);
    }
  }

  #approveOrDispatch(record: McpServerRecord): void {
    if (!this.#context.approvals.concerns(record, this.#call)) this.#dispatch(record);
    else this.#approve(record).catch((error) => this.#fail(error));
  }

  async #approve(record: McpServerRecord): Promise<void> {
    this.#approval ??= new AbortController();
    if (this.#cancelled !== null) this.#approval.abort(this.#cancelled);
    this.#grant = await this.#context.approvals.obtain(record, this.#call, this.args, this.#approval.signal);
    await this.#requireAudit();
    this.#dispatch(record);
  }

  #dispatch(record: McpServerRecord): void {
    if (this.#cancelled !== null) throw this.#cancelled;
    this.#dispatchError = undefined;
    const round = this.#round;
    const started = this.#context.scope.pool.startCall(record, this);
    // The call may have ended and begun another round inside startCall.
    if (round === this.#round) this.#poolCall = started;
  }

  #fail(error: unknown): void {
    this.#dropGrant();
    const cause = this.#revocation ?? error;
    if (cause instanceof ApprovalRefused) this.#denial = cause.denial;
    this.#end(convertError(cause, Number.MAX_SAFE_INTEGER));
  }

  #end({ json, error }: ToolOutput): void {
    const { scope, records, inFlight } = this.#context;
    inFlight.delete(this);
    // An interrupted run makes a call that was not dispatched again when it resumes, so nothing is recorded.
    if (!scope.journal?.isInterrupted || this.#isRecorded) {
      const durationMs = performance.now() - this.#startedAt;
      const code = error?.code ?? null;
      const status = code === null ? 'ok' : this.#denial === null ? 'failed' : 'denied';
      const reason = this.#denial ?? code;
      const outcome = { json, code, status, reason, revision: this.#revision, durationMs } as const;
      records.finished(this.#call, outcome, this.#isRecorded);
    }
    this.#take(json);
  }

  #dropGrant(): void {
    this.#context.approvals.drop(this.#grant);
    this.#grant = null;
  }

  /** Claims an approval that is stored elsewhere and flushes the records, before the server has the call. */
  async #announce(definition: ToolDescriptor, args: JsonObject): Promise<void> {
    try {
      this.#definition = definition;
      await this.#context.approvals.claim(this.#permitted(), this.#call, args, definition, this.#grant);
    } catch (error) {
      this.#dispatchError = error;
      throw error;
    }
    if (!this.#isFlushedLater()) return;
    this.#recordDispatch(args);
    await this.#requireAudit();
    await this.#context.scope.journal?.written?.();
  }

  #recordDispatch(args: JsonObject): void {
    if (this.#isRecorded) return;
    // Unless a default was added, the text as the caller wrote it.
    const text = args === this.#given ? this.#call.arguments : JSON.stringify(args);
    this.#context.records.dispatched(this.#call, text, this.#revision);
    this.#isRecorded = true;
  }

  /** Whether the audit log or the journal has to be flushed before the dispatch. */
  #isFlushedLater(): boolean {
    const { audit, journal } = this.#context.scope;
    return audit.written !== undefined || journal?.written !== undefined;
  }

  /** Waits until the audit events so far are written, if the node requires that. @throws McpPolicyError if they cannot be */
  async #requireAudit(): Promise<void> {
    const { written } = this.#context.scope.audit;
    if (written === undefined || (await written())) return;
    const { serverId, tool } = this.#call;
    this.#denial = 'audit_failed';
    const why = 'the audit log cannot be written, and this node makes no calls without it (audit.on_failure)';
    throw new McpPolicyError(serverId, `${tool}: ${why}`);
  }

  /** Evaluates policy now. @throws McpPolicyError */
  #permitted(): McpServerRecord {
    const { serverId, tool, sessionPolicy } = this.#call;
    const { scope } = this.#context;
    this.#revision = revisionOf(scope);
    const view = scope.registry.view();
    const decision = scope.allowed.decide(view, sessionPolicy, serverId, tool, this.#definition, this.kind);
    if (decision.allowed) return decision.record;
    this.#denial = decision.reason;
    const text = `${tool}: ${decision.detail}`;
    throw decision.reason === 'stopped' ? new McpStoppedError(serverId, text) : new McpPolicyError(serverId, text);
  }
}
