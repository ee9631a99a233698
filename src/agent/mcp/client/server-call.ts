import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import { ignoreWaits, type Wait, type Waiting } from '../../../base/listeners.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../../server/records/server.ts';
import type { CallQueue, QueueEntry } from './call-queue.ts';
import type { CallProgress, RequestObserver } from './call-sender.ts';
import { CallTime } from './call-time.ts';
import type { ServerConnection } from './connection.ts';
import { CallQuestions, type QuestionContext } from './elicitation/call-questions.ts';
import type { Question, QuestionReply } from './elicitation/question.ts';
import { McpBudgetError, McpConnectionError, type McpError, McpTimeoutError, McpToolError } from './errors.ts';
import { callHeaders } from './header-parameters.ts';
import { checkOffer, type ListCache, offerRequest, type RawListing } from './lists.ts';
import type { PoolLimits } from './pool-options.ts';
import type { ServerSession } from './session.ts';
import type { CheckedTool, CompiledToolList, ToolChecks, ToolDescriptor } from './tool-list.ts';
import { convertError, convertResult, type ToolOutput } from './tool-result.ts';

/*
 * One call at one server: slots, session, tool, argument check, dispatch, result.
 *
 * Invariants
 * - A request is sent at most once. Exceptions, because the server then did not execute it: the server does not know the
 *   session any more, or rejects the mirrored headers (HEADER_MISMATCH). Each call gets one such repetition.
 * - `finished` is called exactly once, with a result or an error; after it nothing of the call is pending.
 * - If a slot, the session, a fresh tool list and a cheap check are available, the call is sent synchronously in
 *   `start()`: no promise in between. perf: bench/topics/mcp.ts "stdio, one at a time"
 * - The queue wait and the server's work have separate budgets; connecting and listing have their own deadlines.
 *
 * Ownership: the ServerEntry holds the call in `calls` until it ends. The call owns its slots and its session lease and
 * releases them in `#release()`.
 *
 * Not handled here: policy, approvals and audit events (tool-calls.ts), reconnects (connection.ts).
 */

/** A call that its caller has permitted. */
export interface PoolCall {
  /** @default tool */
  readonly kind?: CallKind | undefined;
  /** The server's own name of the tool or the prompt, or the URI of the resource. */
  readonly tool: string;
  readonly args: JsonObject;
  /** Owner of the call: slots at a busy server rotate between owners. */
  readonly owner: string;
  /** Added to the `_meta` of a tool call. */
  readonly meta?: JsonObject | undefined;
  /** Trace context for intermediaries in front of a server (HTTP header); `meta` carries it to the server itself. */
  readonly traceparent?: string | undefined;
  /** Can only shorten what the record allows. */
  readonly timeoutMs?: number | undefined;
  /** Can only lower what the record allows. */
  readonly maxOutputBytes?: number | undefined;
  /** Whether the result keeps its `_meta`: programs get it, models do not. @default false */
  readonly keepsMeta?: boolean | undefined;
  /** Awaited once the call has its slots, with the tool and the final arguments. A rejection prevents the dispatch. */
  readonly announce?: ((tool: ToolDescriptor, args: JsonObject) => Promise<void>) | undefined;
  /** Called synchronously right before the dispatch, after every wait. Throws an McpError to refuse the call. */
  beforeDispatch?(tool: ToolDescriptor, args: JsonObject): void;
  /** The server requests user input during the call; the signal withdraws the request. @default it is declined */
  asked?(question: Question, signal: AbortSignal): Promise<QuestionReply>;
  /** The server reported progress. Not throttled. */
  progressed?(progress: CallProgress): void;
  /** Called exactly once, possibly before `startCall` returns. A failed call has an output too. */
  finished(output: ToolOutput): void;
}

/** A call that waits for an approval. */
export interface ProposedCall extends Pick<PoolCall, 'kind' | 'tool' | 'args'> {
  readonly signal?: AbortSignal;
}

/** What would be sent for a {@link ProposedCall} now. */
export interface DescribedCall {
  readonly tool: ToolDescriptor;
  readonly args: JsonObject;
}

export interface CallHandle {
  /** Ends the call with this error in whatever state it is. A server that has the request is notified. */
  cancel(error: McpError): void;
}

/** What the calls at one server share. */
export interface CallSite {
  readonly record: McpServerRecord;
  readonly queue: CallQueue;
  readonly connection: ServerConnection;
  readonly tools: ListCache<RawListing, CompiledToolList>;
  readonly checks: ToolChecks;
  readonly calls: Set<CallHandle>;
  /** The server answered a call after this time. */
  answerTook(ms: number): void;
  /** Slots for calls in flight, shared by all servers. */
  readonly places: CallQueue;
  readonly limits: PoolLimits;
  readonly waiting: Waiting;
}

/** Connections that one call may use: after a second one breaks while the call waits, the call fails. */
const MAX_ROUNDS = 2;

/** JSON-RPC code: the mirrored headers do not match the server's tool, so the cached tool list is outdated. */
const HEADER_MISMATCH = -32020;

/** The checked tool, resource or prompt. */
type CallTarget = Omit<CheckedTool, 'input'>;

/**
 * State machine of one call. `#missing()` acquires what is available and names what to wait for; `#proceed()` repeats it
 * after each wait and dispatches the call when nothing is missing.
 */
export class ServerCall implements CallHandle, RequestObserver, QuestionContext, QueueEntry {
  readonly owner: string;
  readonly #call: PoolCall;
  readonly #kind: CallKind;
  readonly #site: CallSite;
  readonly wantsProgress: boolean;
  readonly #time: CallTime;
  readonly #maxOutputBytes: number;
  #hasServerSlot = false;
  #hasCallSlot = false;
  #session: ServerSession | null = null;
  #rounds = 0;
  #tools: CompiledToolList | null = null;
  /** Set once the arguments are checked. */
  #found: CallTarget | null = null;
  #args: JsonObject;
  #isAnnounced = false;
  /** The queue this call waits in, when it entered, and its remaining wait budget. */
  #queuedIn: CallQueue | null = null;
  #queuedSinceMs = 0;
  #queueBudgetMs: number;
  /** Aborts the pending connect or listing. */
  #wait: AbortController | null = null;
  #waitIsOver: (() => void) | null = null;
  /** Id of the request in flight; null: not sent, or answered. */
  #sent: string | null = null;
  #sentAtMs = 0;
  #inputRounds = 0;
  #questions: CallQuestions | null = null;
  #isCancelled = false;
  #hasEnded = false;

  constructor(call: PoolCall, site: CallSite) {
    const { budgets } = site.record;
    this.#call = call;
    this.#kind = call.kind ?? 'tool';
    this.#args = call.args;
    this.#site = site;
    this.owner = call.owner;
    this.#time = new CallTime(site.record, call.timeoutMs, () => this.#expire());
    this.wantsProgress = this.#time.mayBeLonger;
    this.#maxOutputBytes = Math.min(call.maxOutputBytes ?? Number.POSITIVE_INFINITY, budgets.max_tool_output_bytes);
    this.#queueBudgetMs = site.limits.queueTimeoutMs;
  }

  start(): void {
    this.#site.calls.add(this);
    this.#proceed();
  }

  cancel(error: McpError): void {
    this.#isCancelled = true;
    this.#fail(error);
  }

  onSlot(queue: CallQueue): void {
    this.#leaveQueue();
    if (queue === this.#site.queue) this.#hasServerSlot = true;
    else this.#hasCallSlot = true;
    this.#proceed();
  }

  onEvicted(error: Error): void {
    this.#leaveQueue();
    this.#fail(error);
  }

  #expire(): void {
    const { server_id: serverId } = this.#site.record;
    if (this.#queuedIn !== null) {
      const { queueTimeoutMs } = this.#site.limits;
      const message = `the call waited in the queue of server "${serverId}" for more than ${queueTimeoutMs} ms (queueTimeoutMs)`;
      this.#fail(new McpBudgetError(serverId, message));
    } else {
      const what = `${this.#subject().what} of server "${serverId}"`;
      this.#fail(new McpTimeoutError(serverId, this.#time.limitMs, what));
    }
  }

  onProgress(progress: CallProgress): void {
    if (this.#sent === null || this.#hasEnded) return;
    this.#time.extend();
    this.#call.progressed?.(progress);
  }

  onResult(result: JsonObject): void {
    this.#sent = null;
    this.#site.answerTook(performance.now() - this.#sentAtMs);
    if (result.resultType === 'input_required' && this.#continues(result)) return;
    this.#time.clear();
    this.#endWait();
    const problem = this.#site.checks.outputProblem(this.#found as CallTarget, result);
    if (!(problem instanceof Promise)) this.#finish(this.#outputOf(result, problem));
    else {
      problem.then(
        (found) => this.#finish(this.#outputOf(result, found)),
        (error) => this.#fail(error),
      );
    }
  }

  onError(error: unknown): void {
    this.#sent = null;
    const session = this.#session as ServerSession;
    const failure = session.failure(error, this.#subject());
    const neverRan = failure instanceof McpConnectionError && failure.session === 'unknown' && !session.usable;
    // A server that does not mirror headers may use this code for anything, also after executing the call.
    const otherHeaders =
      this.#kind === 'tool' &&
      session.mirrorsHeaders &&
      failure instanceof McpToolError &&
      failure.rpcCode === HEADER_MISMATCH;
    if (otherHeaders) this.#site.tools.invalidate();
    if ((neverRan || otherHeaders) && !this.#hasEnded) this.#sendAgain(failure);
    else this.#fail(failure);
  }

  ask(question: Question, signal: AbortSignal | null): Promise<QuestionReply> {
    this.#questions ??= new CallQuestions(this);
    return this.#questions.ask(question, signal);
  }

  async put(question: Question, signal: AbortSignal): Promise<QuestionReply> {
    const reply = this.#call.asked?.(question, signal);
    return reply ?? { action: 'decline', why: 'no user is available to answer' };
  }

  stopClock(): void {
    this.#time.pause();
    this.#endWait();
  }

  startClock(): void {
    if (this.#hasEnded) return;
    this.#reportWait(this.#time.resume());
  }

  #proceed(): void {
    if (this.#hasEnded) return;
    try {
      const missing = this.#missing();
      if (missing === null) this.#send();
      else if (missing !== 'slot') {
        missing.then(
          () => this.#proceed(),
          (error) => this.#fail(error),
        );
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Acquires what is available. Returns what to wait for: a promise, or a slot, which the queue grants later. */
  #missing(): Promise<void> | 'slot' | null {
    const { queue, connection, tools, checks, places } = this.#site;
    const { tool, announce } = this.#call;
    const kind = this.#kind;
    this.#hasServerSlot ||= queue.take();
    if (!this.#hasServerSlot) return this.#waitInQueue(queue);
    for (;;) {
      this.#session ??= connection.hold();
      if (this.#session === null) return this.#connect();
      if (kind !== 'tool') this.#found ??= checkOffer(this.#session, kind, tool, this.#args);
      else this.#tools ??= tools.fresh;
      if (this.#tools === null && kind === 'tool') return this.#list();
      if (this.#found === null) {
        const found = checks.find(tool, this.#tools as CompiledToolList);
        this.#args = found.input.prepared(this.#call.args);
        const checking = checks.arguments(found, this.#args);
        if (checking !== undefined) return this.#checked(found, checking);
        this.#found = found;
      }
      this.#hasCallSlot ||= places.take();
      if (!this.#hasCallSlot) return this.#waitInQueue(places);
      if (this.#session.usable) break;
      this.#startOver();
    }
    if (announce === undefined || this.#isAnnounced) return null;
    return this.#announce(announce);
  }

  #send(): void {
    const found = this.#found as CallTarget;
    this.#call.beforeDispatch?.(found.tool, this.#args);
    this.#reportWait(this.#time.start());
    this.#request(null);
  }

  #reportWait(timeoutMs: number): void {
    const { waiting, record } = this.#site;
    if (waiting !== ignoreWaits)
      this.#waitIsOver = waiting(responseWait(this.#kind, this.#found as CallTarget, record, timeoutMs));
  }

  /** Whether the result is a permitted request for input of a server of the new era; then the call continues. */
  #continues(result: JsonObject): boolean {
    const mayGoOn = this.#session?.era === 'modern' && this.#inputRounds < MAX_INPUT_ROUNDS;
    const round = mayGoOn ? inputRound(result) : null;
    if (round === null) return false;
    this.#inputRounds += 1;
    if (round.requests.length === 0) this.#request(continuation(round, []));
    else this.#answerRound(round).catch((error) => this.#fail(error));
    return true;
  }

  async #answerRound(round: InputRound): Promise<void> {
    const { questions } = this.#session as ServerSession;
    const responses: [string, JsonObject][] = [];
    for (const [key, { method, params }] of round.requests) {
      try {
        responses.push([key, await questions.reply(method, params, this, null)]);
      } catch (error) {
        throw this.#unanswered(error as Error);
      }
      if (this.#hasEnded) return;
    }
    this.#request(continuation(round, responses));
  }

  #unanswered({ message }: Error): McpToolError {
    const { tool } = this.#call;
    const what = `${this.#kind} "${tool}" requested more input instead of returning a result`;
    return new McpToolError(this.#site.record.server_id, tool, `${what}: its server ${message}`);
  }

  #request(continuation: JsonObject | null): void {
    const { calls, requests } = this.#session as ServerSession;
    const { headers } = this.#found as CallTarget;
    const { tool, traceparent, meta } = this.#call;
    const kind = this.#kind;
    const args = this.#args;
    this.#sentAtMs = performance.now();
    try {
      const id =
        kind === 'tool'
          ? calls.call({ tool, args, headers: callHeaders(headers, args, traceparent), continuation, meta }, this)
          : requests.request(...offerRequest(kind, tool, args, continuation, traceparent), this);
      if (!this.#hasEnded) this.#sent = id;
    } catch (error) {
      this.onError(error);
    }
  }

  #outputOf(result: JsonObject, outputProblem: string | null): ToolOutput {
    const { redact, redactContent } = this.#session as ServerSession;
    const { server_id: serverId } = this.#site.record;
    const maxOutputBytes = this.#maxOutputBytes;
    const kind = this.#kind;
    const { tool: toolName, keepsMeta = false } = this.#call;
    try {
      return convertResult(result, {
        kind,
        serverId,
        toolName,
        maxOutputBytes,
        outputProblem,
        keepsMeta,
        redact,
        redactContent,
      });
    } catch (error) {
      return convertError(error, maxOutputBytes);
    }
  }

  #fail(error: unknown): void {
    if (this.#hasEnded) return;
    if (this.#sent !== null) {
      const way = this.#kind === 'tool' ? this.#session?.calls : this.#session?.requests;
      way?.cancel(this.#sent, String(error));
    }
    this.#questions?.end(error instanceof Error ? error : callEnded());
    this.#queuedIn?.leave(this);
    this.#wait?.abort(error);
    this.#finish(convertError(error, this.#maxOutputBytes));
  }

  #finish(output: ToolOutput): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#questions?.end(callEnded());
    this.#time.clear();
    this.#endWait();
    this.#site.calls.delete(this);
    // A caller that cancels this call often cancels the calls behind it too: none of them may be dispatched in between.
    if (this.#isCancelled) queueMicrotask(() => this.#release());
    else this.#release();
    this.#call.finished(output);
  }

  #release(): void {
    if (this.#hasCallSlot) this.#site.places.release();
    this.#session?.release();
    if (this.#hasServerSlot) this.#site.queue.release();
  }

  async #connect(): Promise<void> {
    this.#wait ??= new AbortController();
    const session = await this.#site.connection.lease(this.#wait.signal);
    if (this.#hasEnded) session.release();
    else this.#session = session;
  }

  async #list(): Promise<void> {
    this.#wait ??= new AbortController();
    this.#tools = await this.#site.tools.get(this.#wait.signal);
  }

  async #checked(found: CheckedTool, checking: Promise<void>): Promise<void> {
    await checking;
    this.#found = found;
  }

  async #announce(announce: NonNullable<PoolCall['announce']>): Promise<void> {
    await announce((this.#found as CallTarget).tool, this.#args);
    this.#isAnnounced = true;
  }

  /** The server rejected the request unexecuted: sends it once more, in a new session or by a new tool list. */
  #sendAgain(failure: McpError): void {
    if (this.#rounds > 0) {
      this.#fail(failure);
      return;
    }
    this.#questions?.end(failure);
    this.#questions = null;
    this.#time.clear();
    this.#endWait();
    this.#startOver();
    this.#proceed();
  }

  /** Releases the broken session and what depended on it. @throws McpConnectionError after the last permitted round */
  #startOver(): void {
    this.#hasCallSlot = false;
    this.#site.places.release();
    this.#session?.release();
    this.#session = null;
    this.#tools = null;
    this.#found = null;
    this.#rounds += 1;
    if (this.#rounds < MAX_ROUNDS) return;
    const { server_id: serverId } = this.#site.record;
    const message = `server "${serverId}" closed its connection while the call was waiting`;
    throw new McpConnectionError(serverId, 'lost', message);
  }

  #waitInQueue(queue: CallQueue): 'slot' {
    queue.enter(this);
    this.#queuedIn = queue;
    this.#queuedSinceMs = performance.now();
    this.#time.startWait(this.#queueBudgetMs);
    const { waiting, record, limits } = this.#site;
    if (waiting !== ignoreWaits) {
      this.#waitIsOver = waiting(queue === this.#site.queue ? serverSlotWait(record, limits) : callSlotWait(limits));
    }
    return 'slot';
  }

  #leaveQueue(): void {
    this.#queuedIn = null;
    this.#queueBudgetMs = Math.max(0, this.#queueBudgetMs - (performance.now() - this.#queuedSinceMs));
    this.#time.clear();
    this.#endWait();
  }

  #endWait(): void {
    this.#waitIsOver?.();
    this.#waitIsOver = null;
  }

  #subject() {
    const { tool } = this.#call;
    return { what: `${this.#kind} "${tool}"`, toolName: tool };
  }
}

const callEnded = () => new Error('the call has ended');

const name = ({ server_id: serverId }: McpServerRecord) => `server ${JSON.stringify(serverId)}`;

export function connectWait(record: McpServerRecord, timeoutMs: number): Wait {
  const command = record.stdio === null ? null : JSON.stringify(record.stdio.command);
  const how = command === null ? 'to connect' : `to start: ${command} has not completed the MCP handshake`;
  return { what: `${name(record)} ${how}`, atMostMs: timeoutMs };
}

export function listWait(kind: CallKind, record: McpServerRecord, { listTimeoutMs }: PoolLimits): Wait {
  return { what: `${name(record)} to list its ${kind}s`, atMostMs: listTimeoutMs };
}

export function serverSlotWait(record: McpServerRecord, { queueTimeoutMs }: PoolLimits): Wait {
  const { max_concurrency: most } = record.budgets;
  return { what: `a slot at ${name(record)}: limited to ${most} concurrent calls`, atMostMs: queueTimeoutMs };
}

export function callSlotWait({ maxCallsInFlight, queueTimeoutMs }: PoolLimits): Wait {
  return { what: `a call slot: ${maxCallsInFlight} calls to servers are in flight`, atMostMs: queueTimeoutMs };
}

/** Wait texts of responses: one text for all calls of a tool. */
const responseTexts = new WeakMap<Pick<CheckedTool, 'tool'>, string>();

export function responseWait(
  kind: CallKind,
  found: Pick<CheckedTool, 'tool'>,
  record: McpServerRecord,
  timeoutMs: number,
): Wait {
  let what = responseTexts.get(found);
  if (what === undefined) {
    what = `${kind} ${JSON.stringify(found.tool.name)} of ${name(record)}`;
    responseTexts.set(found, what);
  }
  return { what, atMostMs: timeoutMs };
}

/** Input rounds of one call. */
const MAX_INPUT_ROUNDS = 10;
/** Input requests of one round. */
const MAX_INPUTS_PER_ROUND = 10;

/** A server of the new era needs input before it continues a call: responses by its keys, and its own state back. */
interface InputRound {
  readonly state: string | null;
  readonly requests: readonly (readonly [key: string, request: JsonObject])[];
}

/** Null: a result, or an unusable request for input. */
function inputRound({ resultType, inputRequests, requestState }: JsonObject): InputRound | null {
  if (resultType !== 'input_required') return null;
  const entries = inputRequests === undefined ? [] : isJsonObject(inputRequests) ? Object.entries(inputRequests) : null;
  const state = typeof requestState === 'string' ? requestState : null;
  if (entries === null || entries.length > MAX_INPUTS_PER_ROUND || (entries.length === 0 && state === null))
    return null;
  const isRequest = (entry: [string, JsonValue]): entry is [string, JsonObject] => isJsonObject(entry[1]);
  return entries.every(isRequest) ? { state, requests: entries } : null;
}

/** Parameters of the continued call. The state is returned exactly as it was received. */
function continuation({ state }: InputRound, responses: readonly (readonly [string, JsonObject])[]): JsonObject {
  return {
    ...(responses.length === 0 ? {} : { inputResponses: Object.fromEntries(responses) }),
    ...(state === null ? {} : { requestState: state }),
  };
}
