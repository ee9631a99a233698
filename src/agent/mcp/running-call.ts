import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { ApprovalGate, GatedCall } from '../approvals/gate.ts';
import { ApprovalRefused, isOutdated } from '../approvals/request.ts';
import { compilePatterns } from '../policy/pattern.ts';
import { uriProblem } from '../policy/resource-uri.ts';
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
import type { StartedCall, ToldCall } from './client/server-call.ts';
import type { ToolDescriptor } from './client/tool-list.ts';
import { convertError, type ToolOutput } from './client/tool-result.ts';
import type { ElicitationDesk } from './elicitation.ts';
import { type GuestScope, revisionOf } from './guest-scope.ts';

/** A call of one MCP tool, a read or a prompt, from either way in. */
export interface McpToolCall extends GatedCall {
  /** JSON as it was written; empty: no arguments. */
  readonly arguments: string;
  /** Can only lower what the record allows. */
  readonly maxOutputBytes: number | undefined;
}

/** Where somebody is asked because of a call. */
export interface CallDesks {
  /** Whether it may be made. */
  readonly approvals: ApprovalGate;
  /** What its server wants to know. */
  readonly elicitations: ElicitationDesk;
}

/** Who is told of a call's way. */
export interface CallObserver {
  /** It is about to be sent, with these arguments; may be told more than once. */
  sent(call: RunningCall, args: JsonObject): void;
  /** Told once. */
  ended(call: RunningCall, output: ToolOutput): void;
  /** Its server says how far it is: at most so often as {@link PROGRESS_PAUSE_MS} lets it. */
  progressed(call: RunningCall, progress: CallProgress): void;
}

/** A server may tell of progress at any rate; of one call, so often is enough for whoever looks at it. */
export const PROGRESS_PAUSE_MS = 10_000;

/** A tool or policy that is another one each time its call is to be sent is not asked about for ever. */
const MAX_APPROVAL_ROUNDS = 4;

/**
 * One call on its way: policy → approval → pool. Policy is asked when it comes, whenever the registry changes meanwhile,
 * and when it is sent. Where no approval is needed and the pool has all it needs, the call is sent before {@link start}
 * returns. What a server did before its call was stopped is not undone.
 */
export class RunningCall implements ToldCall {
  readonly call: McpToolCall;
  /** The arguments, whatever they are; undefined: no JSON. */
  readonly given: JsonValue | undefined;
  readonly origin: string;
  readonly traceparent: string | undefined;
  readonly startedAt = performance.now();
  readonly kind: CallKind | undefined;
  readonly tool: string;
  readonly owner: string;
  readonly maxOutputBytes: number | undefined;
  readonly #scope: GuestScope;
  readonly #approvals: ApprovalGate;
  readonly #elicitations: ElicitationDesk;
  readonly #observer: CallObserver;
  readonly keepsMeta: boolean;
  #nextProgressMs = 0;
  #round = 1;
  #approval: AbortController | null = null;
  #grant: number | null = null;
  #atPool: StartedCall | null = null;
  /** What the server says of the tool; null until the call is about to be sent. */
  #definition: ToolDescriptor | null = null;
  /** Why it was not sent: the pool makes an answer of it, and an answer does not say whether to ask again. */
  #refusal: unknown;
  /** Why it is to end early. */
  #stopped: McpError | null = null;
  #revocation: McpPolicyError | null = null;
  /** That it was sent is; kept by whoever writes it. */
  isInTheTrail = false;
  /** What policy or an approval said last: why not, and by which revision of the registry. */
  denial: string | null = null;
  revision: number | null = null;

  constructor(
    call: McpToolCall,
    given: JsonValue | undefined,
    origin: string,
    scope: GuestScope,
    { approvals, elicitations }: CallDesks,
    observer: CallObserver,
    traceparent: string | undefined,
  ) {
    this.call = call;
    this.given = given;
    this.kind = call.kind;
    this.origin = traceparent === undefined ? origin : `${origin},"traceparent":"${traceparent}"`;
    this.traceparent = traceparent;
    this.tool = call.tool;
    this.owner = `${scope.run}/${call.session}`;
    this.maxOutputBytes = call.maxOutputBytes;
    this.keepsMeta = call.sessionPolicy === null;
    this.#scope = scope;
    this.#approvals = approvals;
    this.#elicitations = elicitations;
    this.#observer = observer;
  }

  /** Where something has to be written or taken elsewhere before its server has the call. */
  get announce(): ((definition: ToolDescriptor, args: JsonObject) => Promise<void>) | undefined {
    if (!this.#isWrittenLater() && !this.#approvals.mustClaim(this.#grant)) return undefined;
    return (definition, args) => this.#announce(definition, args);
  }

  /** For the pool, which sees the call once they are known to be an object. */
  get args(): JsonObject {
    return this.given as JsonObject;
  }

  /** Never throws: a call that fails is an answer too. */
  start(): void {
    try {
      const problem = this.kind === 'resource' ? uriProblem(this.tool) : null;
      if (problem !== null) throw new McpArgumentsError(this.call.serverId, this.tool, `the uri ${problem}`);
      const record = this.#permitted();
      if (!isJsonObject(this.given)) {
        throw new McpArgumentsError(this.call.serverId, this.tool, 'the arguments must be a JSON object');
      }
      this.#approach(record);
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * The same for one that was sent before its run was interrupted, so that nobody knows whether it was done. It is sent
   * again where that does no harm, or somebody says so.
   */
  startAgain(): void {
    try {
      const record = this.#permitted();
      if (compilePatterns(record.repeatable)(this.tool)) this.start();
      else this.#repeat(record).catch((error) => this.#fail(error));
    } catch (error) {
      this.#fail(error);
    }
  }

  async #repeat(record: McpServerRecord): Promise<void> {
    this.#approval ??= new AbortController();
    const { given } = this;
    const grant =
      isJsonObject(given) && (await this.#approvals.mayRepeat(record, this.call, given, this.#approval.signal));
    if (grant === false) throw new McpOutcomeUnknownError(this.call.serverId, this.tool);
    // Who allows it to be made again allows it.
    this.#grant = grant;
    this.#dispatch(this.#permitted());
  }

  /** Whoever wanted it does not any more. */
  cancel(reason: unknown): void {
    const why = 'the call was cancelled';
    this.#stop(reason instanceof McpError ? reason : new McpCancelledError(this.call.serverId, why));
  }

  /** The registry is another one: a call that it does not let through is stopped, wherever it is. */
  reconsider(): void {
    if (this.#revocation !== null) return; // the revision that stopped it stays the one that is told
    try {
      this.#permitted();
    } catch (error) {
      this.#revocation = error as McpPolicyError;
      this.#stop(this.#revocation);
    }
  }

  beforeDispatch(definition: ToolDescriptor, args: JsonObject): void {
    try {
      this.#admit(definition, args);
      this.#observer.sent(this, args);
    } catch (error) {
      this.#refusal = error;
      throw error;
    }
  }

  asked(question: Question, signal: AbortSignal): Promise<QuestionReply> {
    return this.#elicitations.ask(this.call, question, signal);
  }

  progressed(progress: CallProgress): void {
    const now = performance.now();
    if (now < this.#nextProgressMs) return;
    this.#nextProgressMs = now + PROGRESS_PAUSE_MS;
    this.#observer.progressed(this, progress);
  }

  finished(output: ToolOutput): void {
    this.#atPool = null;
    this.#dropGrant();
    // Nobody here ended it, so its server is gone; the registry may be why, and tells the pool first.
    if (output.error?.code === 'mcp_cancelled' && this.#stopped === null) this.reconsider();
    const refusal = this.#refusal;
    if (this.#revocation !== null)
      this.#fail(this.#revocation); // its answer is dropped, even if it came in time
    else if (refusal === undefined) this.#observer.ended(this, output);
    else if (!isOutdated(refusal) || this.#round === MAX_APPROVAL_ROUNDS) this.#fail(refusal);
    else this.#askAgain();
  }

  #stop(error: McpError): void {
    this.#stopped ??= error;
    this.#approval?.abort(error);
    this.#atPool?.cancel(error);
  }

  #askAgain(): void {
    this.#round += 1;
    try {
      this.#approach(this.#permitted());
    } catch (error) {
      this.#fail(error);
    }
  }

  #approach(record: McpServerRecord): void {
    if (!this.#approvals.concerns(record, this.call)) this.#dispatch(record);
    else this.#approve(record).catch((error) => this.#fail(error));
  }

  async #approve(record: McpServerRecord): Promise<void> {
    this.#approval ??= new AbortController();
    if (this.#stopped !== null) this.#approval.abort(this.#stopped);
    this.#grant = await this.#approvals.obtain(record, this.call, this.args, this.#approval.signal);
    await this.#requireTrail();
    this.#dispatch(record);
  }

  #dispatch(record: McpServerRecord): void {
    if (this.#stopped !== null) throw this.#stopped;
    this.#refusal = undefined;
    const round = this.#round;
    const started = this.#scope.pool.startCall(record, this);
    // It may be over already, and another round begun.
    if (round === this.#round) this.#atPool = started;
  }

  #fail(error: unknown): void {
    this.#dropGrant();
    const cause = this.#revocation ?? error;
    if (cause instanceof ApprovalRefused) this.denial = cause.denial;
    this.#observer.ended(this, convertError(cause, Number.MAX_SAFE_INTEGER));
  }

  #dropGrant(): void {
    this.#approvals.drop(this.#grant);
    this.#grant = null;
  }

  /** A yes that is kept elsewhere is taken, and the trail has the call where it must, before its server does. */
  async #announce(definition: ToolDescriptor, args: JsonObject): Promise<void> {
    try {
      this.#definition = definition;
      await this.#approvals.claim(this.#permitted(), this.call, args, definition, this.#grant);
    } catch (error) {
      this.#refusal = error;
      throw error;
    }
    if (!this.#isWrittenLater()) return;
    this.#observer.sent(this, args);
    await this.#requireTrail();
    await this.#scope.journal?.written?.();
  }

  /** Whether the trail or the journal has to be waited for before the call leaves. */
  #isWrittenLater(): boolean {
    const { audit, journal } = this.#scope;
    return audit.written !== undefined || journal?.written !== undefined;
  }

  /** Waits for the lines so far, where the node wants that. @throws McpPolicyError if they cannot be written */
  async #requireTrail(): Promise<void> {
    const { written } = this.#scope.audit;
    if (written === undefined || (await written())) return;
    const { serverId, tool } = this.call;
    this.denial = 'audit_failed';
    const why = 'the audit log cannot be written, and this node makes no calls without it (audit.on_failure)';
    throw new McpPolicyError(serverId, `${tool}: ${why}`);
  }

  /** What policy says of the call at this moment. @throws McpPolicyError */
  #permitted(): McpServerRecord {
    const { serverId, tool, sessionPolicy } = this.call;
    const { registry, allowed } = this.#scope;
    this.revision = revisionOf(this.#scope);
    const decision = allowed.decide(registry.view(), sessionPolicy, serverId, tool, this.#definition, this.kind);
    if (decision.allowed) return decision.record;
    this.denial = decision.reason;
    const text = `${tool}: ${decision.detail}`;
    throw decision.reason === 'stopped' ? new McpStoppedError(serverId, text) : new McpPolicyError(serverId, text);
  }

  /** At the moment it is sent: policy again, and that what was approved is what is done. */
  #admit(definition: ToolDescriptor, args: JsonObject): void {
    this.#definition = definition;
    const record = this.#permitted();
    if (this.#approvals.concerns(record, this.call)) {
      this.#approvals.redeem(record, this.call, args, definition, this.#grant);
    }
  }
}
