import type { JsonObject } from '../../../base/json.ts';
import { untold } from '../../../base/waiting.ts';
import type { CallKind } from '../../../runtime/port/call-kind.ts';
import type { CallQueue, Waiter } from './call-queue.ts';
import type { Asker } from './call-sender.ts';
import type { CallSite } from './call-site.ts';
import { CallTime, type Timed } from './call-time.ts';
import { CallQuestions, type QuestionedCall } from './elicitation/call-questions.ts';
import type { Question, QuestionReply } from './elicitation/question.ts';
import { McpBudgetError, McpConnectionError, type McpError, McpTimeoutError, McpToolError } from './errors.ts';
import { callHeaders } from './header-parameters.ts';
import { continuation, type InputRound, inputRound, MAX_INPUT_ROUNDS } from './input-rounds.ts';
import { checkOffer, offerRequest } from './offers.ts';
import type { CallProgress, StartedCall, ToldCall } from './pool-call.ts';
import type { ServerSession } from './session.ts';
import type { CheckedTool, CompiledToolList } from './tool-list.ts';
import { convertError, convertResult, type ToolOutput } from './tool-result.ts';
import { answerOf, placeAnywhere, placeAt } from './waits.ts';

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
export class ServerCall implements StartedCall, Asker, QuestionedCall, Waiter, Timed {
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
    this.#site.latency.took(performance.now() - this.#askedAtMs);
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

  asked(question: Question, signal: AbortSignal | null): Promise<QuestionReply> {
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
    if (waiting !== untold) this.#waitIsOver = waiting(answerOf(this.#kind, this.#found as Found, record, timeoutMs));
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
    if (waiting !== untold) {
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
