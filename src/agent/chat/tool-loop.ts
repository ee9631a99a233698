import { untilAborted } from '../../base/abort.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import { MAX_GUEST_TOOL_OUTPUT_BYTES, type NumberParam } from '../../runtime/abi/chat-params.ts';
import { errno } from '../../runtime/abi/errno.ts';
import { AnswerEvents } from './answer-events.ts';
import { BackendError, type ChatBackend, type ChatRequest, type ImagePlacement } from './backend.ts';
import { errorBody, toErrorBody, toolError } from './error-body.ts';
import {
  type ChatHistory,
  type GuestTool,
  type OpenTurn,
  resultMessages,
  type TurnCall,
  UNANSWERED,
} from './history.ts';
import { forcedTool, type InjectedTools, noInjectedTools, type ToolSource } from './injected-tools.ts';
import type { EventSink } from './model-event.ts';
import { takeImages } from './result-images.ts';
import { SendMetrics } from './send-metrics.ts';
import { unforced, withoutForce } from './tool-choice.ts';

export const AUTO_TOOL_CALL = 2;
export const HAND_BACK = 4;
/** The guest reads the answer while it comes. */
export const STREAM = 8;

/** Runs a guest tool in the guest and answers with its output, or with the rc it failed with. */
export type GuestToolCaller = (
  tool: GuestTool,
  args: string,
  maxOutputBytes: number,
) => Promise<{ readonly rc: number; readonly content: string }>;

export interface SendPorts {
  readonly backend: (name: string | undefined) => Promise<ChatBackend>;
  readonly callGuestTool: GuestToolCaller;
  /** Tools from outside the guest; null: there are none. */
  readonly tools: ToolSource | null;
  /** The session's name, for whoever is asked for tools or for an answer. */
  readonly session: string;
  /** Names the send in its run. @default its session */
  readonly ordinal?: string;
  readonly observer: SendObserver;
  /** Takes what happens while it happens; null: nobody reads along. */
  readonly events: EventSink | null;
  /** What is left until the deadline of the send. */
  readonly timeLeftMs: () => number;
}

/** One request to a model, without anything that was said. */
export interface ModelCall {
  readonly backend: string;
  /** undefined: the backend chooses. */
  readonly model: string | undefined;
  /** `ok`, `cancelled`, or the code of the error. */
  readonly outcome: string;
  readonly durationMs: number;
  /** As the provider counts; null where there is no answer or it does not say. */
  readonly usage: JsonObject | null;
}

/** Who is told of what a send does, besides the guest. */
export interface SendObserver {
  readonly toolStarted: (call: TurnCall) => void;
  /** `outcome`: `ok`, or the code of the error. */
  readonly toolFinished: (call: TurnCall, outcome: string, durationMs: number) => void;
  readonly limitReached: (limit: NumberParam) => void;
  readonly modelAnswered: (call: ModelCall) => void;
  /** The host's own failure: the guest learns only that there was one. */
  readonly failed: (error: unknown) => void;
}

export interface SendOutcome {
  /** JSON. */
  readonly body: string;
  readonly metrics: SendMetrics;
  /** Ids of the tool calls that the guest has to answer. */
  readonly pending: readonly string[];
}

/**
 * One `cchat_send`: asks the model, runs the tools it calls, and asks again, until it answers or a limit is reached.
 * Whatever happens, the history stays one that a provider accepts: each tool call has exactly one answer.
 */
export async function runSend(
  history: ChatHistory,
  flags: number,
  ports: SendPorts,
  signal: AbortSignal,
): Promise<SendOutcome> {
  const metrics = new SendMetrics(history.openTurn);
  if (history.openTurn) reportHandedBack(history.openTurn, ports.observer);
  history.openTurn = undefined;
  const over = (body: JsonObject, pending: readonly string[]): SendOutcome => {
    const json = canonicalJson(body);
    if (ports.events !== null) tellEnd(ports.events, body);
    return { body: json, metrics, pending };
  };
  try {
    const { body, pending } = await new Send(history, flags, ports, signal, metrics).run();
    return over(body, pending);
  } catch (error) {
    if (!signal.aborted && !(error instanceof BackendError)) ports.observer.failed(error);
    return over(signal.aborted ? abortedBody(signal, history.number('timeout_ms')) : toErrorBody(error), []);
  }
}

function tellEnd(events: EventSink, { error, choices }: JsonObject): void {
  if (isJsonObject(error)) events.emit({ type: 'error', error });
  const first = Array.isArray(choices) ? choices[0] : undefined;
  const reason = isJsonObject(first) ? textOr(first.finish_reason, 'stop') : 'error';
  events.emit({ type: 'end', finish_reason: reason });
}

function reportHandedBack({ handedBack, handedBackAt }: OpenTurn, observer: SendObserver): void {
  for (const call of handedBack) {
    const outcome = call.result === UNANSWERED ? 'cancelled' : 'ok';
    observer.toolFinished(call, outcome, performance.now() - handedBackAt);
  }
}

function abortedBody(signal: AbortSignal, timeoutMs: number): JsonObject {
  const timedOut = signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError';
  return timedOut
    ? errorBody('timeout', `the send took longer than timeout_ms = ${timeoutMs}`, true)
    : errorBody('cancelled', 'the send was cancelled', false);
}

type Step = { readonly body: JsonObject; readonly pending: readonly string[] };

class Send {
  readonly #history: ChatHistory;
  readonly #flags: number;
  readonly #ports: SendPorts;
  readonly #signal: AbortSignal;
  readonly #metrics: SendMetrics;
  /** What the model is sent: the history itself, or a list that goes on with it, never a copy for one turn. */
  #sent: JsonObject[];

  constructor(history: ChatHistory, flags: number, ports: SendPorts, signal: AbortSignal, metrics: SendMetrics) {
    this.#history = history;
    this.#flags = flags;
    this.#ports = ports;
    this.#signal = signal;
    this.#metrics = metrics;
    this.#sent = history.messages;
  }

  async run(): Promise<Step> {
    const history = this.#history;
    const looping = (this.#flags & (AUTO_TOOL_CALL | HAND_BACK)) !== 0;
    const backend = await this.#ports.backend(history.text('backend'));
    const model = history.text('model') ?? backend.model;
    const wantsTools = history.param('tool_choice') !== 'none';
    const injected = looping && wantsTools ? await this.#inject() : noInjectedTools;
    this.#sent = withSystemMessage(history.messages, injected);
    let request = this.#request(model, injected);

    for (;;) {
      if (this.#metrics.iterations >= history.number('max_iterations')) return this.#limit('max_iterations');
      const body = await this.#ask(backend, request);
      request = withoutForce(request);
      const message = assistantMessage(body);
      const calls = toolCalls(message);
      const stamped = { ...body, _spear: { backend: backend.name, model: model ?? String(body.model ?? '') } };
      if (calls.length === 0 || !looping) {
        this.#appendAnswer(message);
        return { body: stamped, pending: [] };
      }
      this.#append([{ ...forHistory(message), tool_calls: answerable(message, calls) }]);
      if (this.#metrics.toolCalls + calls.length > history.number('max_total_tool_calls')) {
        return this.#refuse(calls, 'max_total_tool_calls');
      }
      this.#metrics.toolCalls += calls.length;
      const handedBack = await this.#runCalls(calls, injected, backend.images ?? 'none');
      if (handedBack.length > 0) return this.#handBack(stamped, calls, handedBack);
      this.#append(resultMessages(calls));
      this.#signal.throwIfAborted();
    }
  }

  #append(messages: readonly JsonObject[]): void {
    this.#history.messages.push(...messages);
    if (this.#sent !== this.#history.messages) this.#sent.push(...messages);
  }

  async #inject(): Promise<InjectedTools> {
    const { tools, session } = this.#ports;
    const history = this.#history;
    if (tools === null) return noInjectedTools;
    const guestTools = new Set(history.tools.keys());
    const maxOutputBytes = history.number('max_tool_output_bytes');
    return tools.inject({ session, params: history.mcpParams(), guestTools, maxOutputBytes }, this.#signal);
  }

  /** Everything of the request that stays the same during a send, but for a force: that holds for its first request. */
  #request(model: string | undefined, injected: InjectedTools): ChatRequest {
    const history = this.#history;
    const own = [...history.tools.values()].map(({ definition }) => definition);
    // Alone they are given as they are: a list that was sent before need not become text again.
    const definitions = own.length === 0 ? injected.definitions : [...own, ...injected.definitions];
    const given = history.param('tool_choice');
    // A send that goes on with a handed-back turn is not at its first request.
    const wanted = this.#metrics.iterations === 0 ? given : unforced(given);
    const isOwn = wanted === undefined || history.tools.has(forcedTool(wanted) ?? '');
    const choice = isOwn ? wanted : injected.toolChoice(wanted);
    if (choice === null) throw forcedToolMissing();
    const request = {
      ...(model === undefined ? {} : { model }),
      messages: this.#sent,
      ...(definitions.length > 0 ? { tools: definitions as JsonObject[] } : {}),
      ...(definitions.length > 0 && choice !== undefined ? { tool_choice: choice } : {}),
      ...Object.fromEntries(history.forwarded()),
    };
    request.messages = this.#sent; // whatever the guest forwards under that name
    return request;
  }

  async #ask(backend: ChatBackend, head: ChatRequest): Promise<JsonObject> {
    this.#metrics.iterations++;
    const { session, timeLeftMs, events } = this.#ports;
    const started = performance.now();
    const about = { backend: backend.name, model: typeof head.model === 'string' ? head.model : undefined };
    const tell = (outcome: string, usage: JsonObject | null) => {
      const durationMs = performance.now() - started;
      this.#metrics.modelMs += durationMs;
      this.#ports.observer.modelAnswered({ ...about, outcome, durationMs, usage });
    };
    try {
      const deltas = events && (await this.#whenRead(events));
      const by = { session, timeLeftMs: timeLeftMs() };
      const body = await backend.complete(head, this.#signal, deltas === null ? by : { ...by, deltas });
      if (deltas !== null) await deltas.finish(body, this.#signal);
      this.#metrics.answered(body);
      tell('ok', isJsonObject(body.usage) ? body.usage : null);
      return body;
    } catch (error) {
      const why = error instanceof BackendError ? error.code : 'failed';
      tell(this.#signal.aborted ? 'cancelled' : why, null);
      throw error;
    }
  }

  /** Whoever has not read the last answer does not need the next one. */
  async #whenRead(events: EventSink): Promise<AnswerEvents> {
    const room = events.room();
    if (room !== null) await untilAborted(room, this.#signal);
    return new AnswerEvents(events);
  }

  /** A plain send leaves the calls to the guest, so the history cannot have them: nobody would answer them there. */
  #appendAnswer(message: JsonObject): void {
    const answer = forHistory(message);
    if (answer.content !== null || toolCalls(message).length === 0) this.#append([answer]);
  }

  #refuse(calls: readonly TurnCall[], param: NumberParam): Step {
    const content = canonicalJson(toolError('tool_call_limit', `exceeded ${param}`));
    for (const call of calls) call.result = content;
    this.#append(resultMessages(calls));
    return this.#limit(param);
  }

  #limit(param: NumberParam): Step {
    this.#ports.observer.limitReached(param);
    return { body: errorBody('tool_call_limit', `exceeded ${param}`, false), pending: [] };
  }

  /** Answers every call that is not handed back; a failed one is answered with its error. */
  async #runCalls(calls: readonly TurnCall[], injected: InjectedTools, placement: ImagePlacement): Promise<TurnCall[]> {
    const handedBack: TurnCall[] = [];
    const outside: TurnCall[] = [];
    const inside: [TurnCall, GuestTool][] = [];
    const { events } = this.#ports;
    for (const call of calls) {
      events?.emit({ type: 'tool_start', id: call.id, name: call.name });
      const tool = this.#history.tools.get(call.name);
      if (tool && this.#isHandedBack(tool)) handedBack.push(call);
      else if (tool) inside.push([call, tool]);
      else if (injected.owns(call.name)) outside.push(call);
      else {
        call.result = canonicalJson(toolError('unknown_tool', `there is no tool named ${JSON.stringify(call.name)}`));
        events?.emit({ type: 'tool_result', id: call.id, name: call.name, ok: false });
      }
    }
    const ran = outside.length > 0 ? this.#runInjected(outside, calls, injected, placement) : null;
    for (const [call, tool] of inside) await this.#runInGuest(call, tool);
    if (ran !== null) await ran;
    return handedBack;
  }

  #isHandedBack(tool: GuestTool): boolean {
    const auto = (this.#flags & AUTO_TOOL_CALL) !== 0;
    const handBack = (this.#flags & HAND_BACK) !== 0;
    return handBack && (!auto || tool.fnOffset < 0);
  }

  async #runInjected(
    calls: readonly TurnCall[],
    turn: readonly TurnCall[],
    injected: InjectedTools,
    placement: ImagePlacement,
  ): Promise<void> {
    const place = `${this.#ports.ordinal ?? this.#ports.session}.${this.#metrics.iterations}`;
    const named = calls.map((call) => {
      const { id, name, arguments: args } = call;
      return { id, name, arguments: args, ordinal: `${place}.${turn.indexOf(call) + 1}` };
    });
    const answers = await injected.run(named, this.#signal);
    for (const [at, call] of calls.entries()) {
      const result = answers[at] as string;
      call.result = result;
      this.#metrics.toolBytes += Buffer.byteLength(result);
      const { id, name } = call;
      this.#ports.events?.emit({ type: 'tool_result', id, name, ok: !isToolError(result) });
      if (placement !== 'none') showImages(call, result, placement);
    }
  }

  async #runInGuest(call: TurnCall, tool: GuestTool): Promise<void> {
    const started = performance.now();
    const cap = Math.min(this.#history.number('max_tool_output_bytes'), MAX_GUEST_TOOL_OUTPUT_BYTES);
    this.#ports.observer.toolStarted(call);
    const { rc, content } = this.#signal.aborted
      ? aborted
      : // A guest may hold a callback for as long as it likes; the send ends when it is told to.
        await untilAborted(this.#ports.callGuestTool(tool, call.arguments, cap), this.#signal, () => aborted);
    const why = content === '' ? '' : ` (${content})`;
    call.result = rc === 0 ? content : canonicalJson(toolError('tool_exec_failed', `tool rc: ${rc}${why}`));
    this.#metrics.toolBytes += Buffer.byteLength(call.result);
    this.#ports.observer.toolFinished(call, rc === 0 ? 'ok' : 'tool_exec_failed', performance.now() - started);
    this.#ports.events?.emit({ type: 'tool_result', id: call.id, name: call.name, ok: rc === 0 });
  }

  #handBack(body: JsonObject, calls: readonly TurnCall[], handedBack: readonly TurnCall[]): Step {
    const { iterations, toolCalls: count } = this.#metrics;
    this.#history.openTurn = { calls, handedBack, handedBackAt: performance.now(), iterations, toolCalls: count };
    for (const call of handedBack) this.#ports.observer.toolStarted(call);
    const pendingCalls = handedBack.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }));
    return {
      body: { ...body, _spear: { ...(body._spear as JsonObject), pending_tool_calls: pendingCalls } },
      pending: handedBack.map(({ id }) => id),
    };
  }
}

function showImages(call: TurnCall, result: string, placement: ImagePlacement): void {
  const { text, images: parts } = takeImages(result);
  call.result = text;
  if (parts.length > 0) call.images = { parts, placement };
}

function forcedToolMissing(): BackendError {
  const message = 'tool_choice forces an MCP tool that is not among the tools of this send';
  return new BackendError('mcp_policy_denied', message, { retryable: false });
}

/** After the guest's own system messages, so that what it says first stays first; for this send alone. */
function withSystemMessage(messages: JsonObject[], { systemMessage }: InjectedTools): JsonObject[] {
  if (systemMessage === null) return messages;
  const after = messages.findIndex(({ role }) => role !== 'system');
  return messages.toSpliced(after < 0 ? messages.length : after, 0, { role: 'system', content: systemMessage });
}

function assistantMessage(body: JsonObject): JsonObject {
  const choice = Array.isArray(body.choices) ? body.choices[0] : undefined;
  const message = isJsonObject(choice) ? choice.message : undefined;
  if (isJsonObject(message)) return message;
  throw new BackendError('bad_response', 'the model’s answer has no choices[0].message', { retryable: false });
}

/** What of an answer is sent back to the model: providers add fields that they do not take. */
function forHistory(message: JsonObject): JsonObject {
  const kept: JsonObject = { role: 'assistant', content: message.content ?? null };
  if (typeof message.refusal === 'string') kept.refusal = message.refusal;
  return kept;
}

/** Some providers give calls no id, or one id to all of them: each gets its own, or its answer could not be told apart. */
function toolCalls(message: JsonObject): TurnCall[] {
  if (!Array.isArray(message.tool_calls)) return [];
  const taken = new Set<string>();
  return message.tool_calls.map((call, index) => {
    const fn = isJsonObject(call) && isJsonObject(call.function) ? call.function : {};
    let id = textOr(isJsonObject(call) ? call.id : undefined, '');
    while (id === '' || taken.has(id)) id = `call_${index}${id && `_${id}`}`;
    taken.add(id);
    return { id, name: textOr(fn.name, ''), arguments: argumentsText(fn.arguments), result: undefined };
  });
}

/** The calls of a message under the ids that their answers will have. */
function answerable(message: JsonObject, calls: readonly TurnCall[]): JsonValue[] {
  const given = message.tool_calls as JsonValue[];
  return calls.map(({ id, name, arguments: args }, index) => {
    const call = given[index];
    const fn = isJsonObject(call) ? call.function : undefined;
    if (isJsonObject(call) && isJsonObject(fn) && fn.arguments === args) return { ...call, id };
    return { id, type: 'function', function: { name, arguments: args } };
  });
}

/** Of a tool from outside the guest: a result that failed says so beside whatever else it has. */
function isToolError(result: string): boolean {
  const answer = parseJson(result);
  return isJsonObject(answer) && answer.error !== undefined;
}

const aborted = { rc: -errno.ECANCELED, content: '' };

/** JSON in a string, as it should be; some providers give the object itself. */
const argumentsText = (given: JsonValue | undefined): string =>
  isJsonObject(given) ? canonicalJson(given) : textOr(given, '{}');

const textOr = (value: JsonValue | undefined, otherwise: string): string =>
  typeof value === 'string' ? value : otherwise;
