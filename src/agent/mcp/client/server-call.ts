import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import { ignoreWaits, type Wait, type Waiting } from '../../../base/listeners.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../../server/records/server.ts';
import type { CallQueue, Waiter } from './call-queue.ts';
import type { Asker, CallProgress } from './call-sender.ts';
import { CallTime, type Timed } from './call-time.ts';
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

/** A call whose connection broke while it waited gets one more; after that it fails. */
const MAX_ROUNDS = 2;

/** The parameters that are sent as headers are not those that we know of: the tool has changed. */
const HEADER_MISMATCH = -32020;

/** What is asked for, as far as it was checked. */
type Found = Omit<CheckedTool, 'input'>;

/**
 * One call at one server. It gathers what it needs: a place, a session, the tool, a verdict on its arguments, a place
 * among all calls, and is sent the moment nothing is missing. Where all of it is there already, that is at once and
 * without a promise; where something is missing, it waits for that and looks again.
 */
export class ServerCall implements StartedCall, Asker, QuestionContext, Waiter, Timed {
  readonly owner: string;
  readonly #call: ToldCall;
  readonly #kind: CallKind;
  readonly #site: CallSite;
  readonly wantsProgress: boolean;
  readonly #time: CallTime;
  readonly #maxOutputBytes: number;
  #hasPlace = false;
  #hasPlaceAnywhere = false;
  #session: ServerSession | null = null;
  #rounds = 0;
  #tools: CompiledToolList | null = null;
  /** Takes the arguments of this call, as they are sent. */
  #found: Found | null = null;
  #args: JsonObject;
  #isAnnounced = false;
  /** The line it stands in, since when, and how long it may still. */
  #line: CallQueue | null = null;
  #lineSinceMs = 0;
  #lineLeftMs: number;
  /** Ends what it waits for besides places. */
  #wait: AbortController | null = null;
  #waitIsOver: (() => void) | null = null;
  /** Under which id the server has it; null: it does not, or has answered. */
  #sent: number | null = null;
  #askedAtMs = 0;
  #inputRounds = 0;
  #questions: CallQuestions | null = null;
  #isCancelled = false;
  #hasEnded = false;

  constructor(call: ToldCall, site: CallSite) {
    const { budgets } = site.record;
    this.#call = call;
    this.#kind = call.kind ?? 'tool';
    this.#args = call.args;
    this.#site = site;
    this.owner = call.owner;
    this.#time = new CallTime(this, call.timeoutMs, site.record);
    this.wantsProgress = this.#time.mayBeLonger;
    this.#maxOutputBytes = Math.min(call.maxOutputBytes ?? Number.POSITIVE_INFINITY, budgets.max_tool_output_bytes);
    this.#lineLeftMs = site.limits.queueTimeoutMs;
  }

  start(): void {
    this.#site.calls.add(this);
    this.#proceed();
  }

  cancel(error: McpError): void {
    this.#isCancelled = true;
    this.#fail(error);
  }

  placed(queue: CallQueue): void {
    this.#leaveLine();
    if (queue === this.#site.queue) this.#hasPlace = true;
    else this.#hasPlaceAnywhere = true;
    this.#proceed();
  }

  refused(error: Error): void {
    this.#leaveLine();
    this.#fail(error);
  }

  expire(): void {
    const { server_id: serverId } = this.#site.record;
    if (this.#line !== null) {
      const { queueTimeoutMs } = this.#site.limits;
      const message = `the call waited in the queue of server "${serverId}" for more than ${queueTimeoutMs} ms (queueTimeoutMs)`;
      this.#fail(new McpBudgetError(serverId, message));
    } else {
      const what = `${this.#subject().what} of server "${serverId}"`;
      this.#fail(new McpTimeoutError(serverId, this.#time.limitMs, what));
    }
  }

  progressed(progress: CallProgress): void {
    if (this.#sent === null || this.#hasEnded) return;
    this.#time.putOff();
    this.#call.progressed?.(progress);
  }

  answered(result: JsonObject): void {
    this.#sent = null;
    this.#site.answerTook(performance.now() - this.#askedAtMs);
    if (result.resultType === 'input_required' && this.#goesOn(result)) return;
    this.#time.drop();
    this.#endWait();
    const problem = this.#site.checks.outputProblem(this.#found as Found, result);
    if (!(problem instanceof Promise)) this.#finish(this.#outputOf(result, problem));
    else {
      problem.then(
        (found) => this.#finish(this.#outputOf(result, found)),
        (error) => this.#fail(error),
      );
    }
  }

  failed(error: unknown): void {
    this.#sent = null;
    const session = this.#session as ServerSession;
    const failure = session.failure(error, this.#subject());
    const neverRan = failure instanceof McpConnectionError && failure.session === 'unknown' && !session.usable;
    // Servers without such headers may mean anything by that code, after the call as well.
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
    this.#time.stop();
    this.#endWait();
  }

  startClock(): void {
    if (this.#hasEnded) return;
    this.#tellWait(this.#time.goOn());
  }

  #proceed(): void {
    if (this.#hasEnded) return;
    try {
      const missing = this.#missing();
      if (missing === null) this.#send();
      else if (missing !== 'place') {
        missing.then(
          () => this.#proceed(),
          (error) => this.#fail(error),
        );
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Takes what can be had now. Gives what has to be waited for: a promise, or a place, which comes by itself. */
  #missing(): Promise<void> | 'place' | null {
    const { queue, connection, tools, checks, places } = this.#site;
    const { tool, announce } = this.#call;
    const kind = this.#kind;
    this.#hasPlace ||= queue.take();
    if (!this.#hasPlace) return this.#standInLine(queue);
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
      this.#hasPlaceAnywhere ||= places.take();
      if (!this.#hasPlaceAnywhere) return this.#standInLine(places);
      if (this.#session.usable) break;
      this.#startOver();
    }
    if (announce === undefined || this.#isAnnounced) return null;
    return this.#announce(announce);
  }

  #send(): void {
    const found = this.#found as Found;
    this.#call.beforeDispatch?.(found.tool, this.#args);
    this.#tellWait(this.#time.begin());
    this.#ask(null);
  }

  /** Until the answer is there. */
  #tellWait(timeoutMs: number): void {
    const { waiting, record } = this.#site;
    if (waiting !== ignoreWaits)
      this.#waitIsOver = waiting(answerOf(this.#kind, this.#found as Found, record, timeoutMs));
  }

  /** Whether a server of the new era wants something before it gives a result, and may have it. */
  #goesOn(result: JsonObject): boolean {
    const mayGoOn = this.#session?.era === 'modern' && this.#inputRounds < MAX_INPUT_ROUNDS;
    const round = mayGoOn ? inputRound(result) : null;
    if (round === null) return false;
    this.#inputRounds += 1;
    if (round.requests.length === 0) this.#ask(continuation(round, []));
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
    this.#ask(continuation(round, responses));
  }

  #unanswered({ message }: Error): McpToolError {
    const { tool } = this.#call;
    const what = `${this.#kind} "${tool}" requested more input instead of returning a result`;
    return new McpToolError(this.#site.record.server_id, tool, `${what}: its server ${message}`);
  }

  #ask(more: JsonObject | null): void {
    const { calls, requests } = this.#session as ServerSession;
    const { headers } = this.#found as Found;
    const { tool, traceparent } = this.#call;
    const kind = this.#kind;
    this.#askedAtMs = performance.now();
    try {
      const id =
        kind === 'tool'
          ? calls.ask(tool, this.#args, this, callHeaders(headers, this.#args, traceparent), more, this.#call.origin)
          : requests.askFor(...offerRequest(kind, tool, this.#args, more, traceparent), this);
      if (!this.#hasEnded) this.#sent = id;
    } catch (error) {
      this.failed(error);
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
    this.#line?.leave(this);
    this.#wait?.abort(error);
    this.#finish(convertError(error, this.#maxOutputBytes));
  }

  #finish(output: ToolOutput): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#questions?.end(callEnded());
    this.#time.drop();
    this.#endWait();
    this.#site.calls.delete(this);
    // Whoever cancels one call often cancels those that wait behind it in the same breath: they must not be sent first.
    if (this.#isCancelled) queueMicrotask(() => this.#giveBack());
    else this.#giveBack();
    this.#call.finished(output);
  }

  #giveBack(): void {
    if (this.#hasPlaceAnywhere) this.#site.places.release();
    this.#session?.release();
    if (this.#hasPlace) this.#site.queue.release();
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

  async #announce(announce: NonNullable<ToldCall['announce']>): Promise<void> {
    await announce((this.#found as Found).tool, this.#args);
    this.#isAnnounced = true;
  }

  /**
   * The server does not know the session any more, or wants other headers than it said, so the call never ran: it is sent
   * once more, in a new session or by a new list.
   */
  #sendAgain(failure: McpError): void {
    if (this.#rounds > 0) {
      this.#fail(failure);
      return;
    }
    this.#questions?.end(failure);
    this.#questions = null;
    this.#time.drop();
    this.#endWait();
    this.#startOver();
    this.#proceed();
  }

  /** The connection broke while the call waited: everything that hung on it is looked for again. */
  #startOver(): void {
    this.#hasPlaceAnywhere = false;
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

  #standInLine(queue: CallQueue): 'place' {
    queue.enter(this);
    this.#line = queue;
    this.#lineSinceMs = performance.now();
    this.#time.keep(this.#lineLeftMs);
    const { waiting, record, limits } = this.#site;
    if (waiting !== ignoreWaits) {
      this.#waitIsOver = waiting(queue === this.#site.queue ? placeAt(record, limits) : placeAnywhere(limits));
    }
    return 'place';
  }

  #leaveLine(): void {
    this.#line = null;
    this.#lineLeftMs = Math.max(0, this.#lineLeftMs - (performance.now() - this.#lineSinceMs));
    this.#time.drop();
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

export function startOf(record: McpServerRecord, timeoutMs: number): Wait {
  const command = record.stdio === null ? null : JSON.stringify(record.stdio.command);
  const how = command === null ? 'to connect' : `to start: ${command} has not completed the MCP handshake`;
  return { what: `${name(record)} ${how}`, atMostMs: timeoutMs };
}

export function listOf(kind: CallKind, record: McpServerRecord, { listTimeoutMs }: PoolLimits): Wait {
  return { what: `${name(record)} to list its ${kind}s`, atMostMs: listTimeoutMs };
}

export function placeAt(record: McpServerRecord, { queueTimeoutMs }: PoolLimits): Wait {
  const { max_concurrency: most } = record.budgets;
  return { what: `a slot at ${name(record)}: limited to ${most} concurrent calls`, atMostMs: queueTimeoutMs };
}

export function placeAnywhere({ maxCallsInFlight, queueTimeoutMs }: PoolLimits): Wait {
  return { what: `a call slot: ${maxCallsInFlight} calls to servers are in flight`, atMostMs: queueTimeoutMs };
}

/** Of what was called, what is waited for: the same words for every call of a tool. */
const answers = new WeakMap<Pick<CheckedTool, 'tool'>, string>();

export function answerOf(
  kind: CallKind,
  found: Pick<CheckedTool, 'tool'>,
  record: McpServerRecord,
  timeoutMs: number,
): Wait {
  let what = answers.get(found);
  if (what === undefined) {
    what = `${kind} ${JSON.stringify(found.tool.name)} of ${name(record)}`;
    answers.set(found, what);
  }
  return { what, atMostMs: timeoutMs };
}

/** What the calls at one server share. */
export interface CallSite {
  readonly record: McpServerRecord;
  readonly queue: CallQueue;
  readonly connection: ServerConnection;
  readonly tools: ListCache<RawListing, CompiledToolList>;
  readonly checks: ToolChecks;
  readonly calls: Set<StartedCall>;
  /** The server answered a call after this time. */
  answerTook(ms: number): void;
  /** Places for calls in flight, shared by all servers. */
  readonly places: CallQueue;
  readonly limits: PoolLimits;
  readonly waiting: Waiting;
}

/** A call that its caller has let through. */
export interface PoolCall {
  /** @default tool */
  readonly kind?: CallKind | undefined;
  /** The server's own name of the tool or the prompt, or the uri of the resource. */
  readonly tool: string;
  readonly args: JsonObject;
  /** Whose call it is; places at a busy server go round between owners. */
  readonly owner: string;
  /** What the server is told of the call in its `_meta`, as the inside of a JSON object. */
  readonly origin?: string | undefined;
  /** The trace that it is a part of, for what stands before a server; `origin` tells the server itself. */
  readonly traceparent?: string | undefined;
  /** Can only shorten what the record allows. */
  readonly timeoutMs?: number | undefined;
  /** Can only lower what the record allows. */
  readonly maxOutputBytes?: number | undefined;
  /** Whether the result has its `_meta`: programs get it, models do not. @default false */
  readonly keepsMeta?: boolean | undefined;
  /** Waited for when the call has its place, with the tool and the arguments that will be sent: it is not if this rejects. */
  readonly announce?: ((tool: ToolDescriptor, args: JsonObject) => Promise<void>) | undefined;
  /** Asked at the last moment, after every wait; throws an McpError to refuse the call. */
  beforeDispatch?(tool: ToolDescriptor, args: JsonObject): void;
  /** The server asks something during it; no answer is wanted any more when the signal aborts. @default it is declined */
  asked?(question: Question, signal: AbortSignal): Promise<QuestionReply>;
  /** The server says how far it is. It may do so at any rate. */
  progressed?(progress: CallProgress): void;
}

/** A call that somebody has to decide about first. */
export interface ProposedCall extends Pick<PoolCall, 'kind' | 'tool' | 'args'> {
  readonly signal?: AbortSignal;
}

/** What it would be, if it were sent now. */
export interface DescribedCall {
  readonly tool: ToolDescriptor;
  readonly args: JsonObject;
}

/** A call by somebody who is told of its end. */
export interface ToldCall extends PoolCall {
  /** Called once, maybe before the call is started: a call that fails has an outcome too. */
  finished(output: ToolOutput): void;
}

export interface StartedCall {
  /** Ends it with this error, wherever it is; a server that has it is told. */
  cancel(error: McpError): void;
}

/** How often a server may have one call sent again. */
export const MAX_INPUT_ROUNDS = 10;
/** What it may ask for in one of those rounds. */
export const MAX_INPUTS_PER_ROUND = 10;

/** What a server wants before it goes on with a call: answers by the keys it gave, and its own state back. */
export interface InputRound {
  readonly state: string | null;
  readonly requests: readonly (readonly [key: string, request: JsonObject])[];
}

/** Null: the server gave a result, or something that cannot be gone on with. */
export function inputRound({ resultType, inputRequests, requestState }: JsonObject): InputRound | null {
  if (resultType !== 'input_required') return null;
  const entries = inputRequests === undefined ? [] : isJsonObject(inputRequests) ? Object.entries(inputRequests) : null;
  const state = typeof requestState === 'string' ? requestState : null;
  if (entries === null || entries.length > MAX_INPUTS_PER_ROUND || (entries.length === 0 && state === null))
    return null;
  const isRequest = (entry: [string, JsonValue]): entry is [string, JsonObject] => isJsonObject(entry[1]);
  return entries.every(isRequest) ? { state, requests: entries } : null;
}

/** What the call is sent with once more: the state exactly as it was given, and none where none was. */
export function continuation({ state }: InputRound, responses: readonly (readonly [string, JsonObject])[]): JsonObject {
  return {
    ...(responses.length === 0 ? {} : { inputResponses: Object.fromEntries(responses) }),
    ...(state === null ? {} : { requestState: state }),
  };
}
