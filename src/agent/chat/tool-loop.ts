import { untilAborted } from '../../base/abort.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import { MAX_GUEST_TOOL_OUTPUT_BYTES, type NumberParam } from '../../runtime/abi/chat-params.ts';
import { errno } from '../../runtime/abi/errno.ts';
import {
  BackendError,
  type ChatBackend,
  type ChatRequest,
  errorBody,
  type ImagePlacement,
  toErrorBody,
  toolError,
} from './backend.ts';
import {
  type ChatHistory,
  type GuestTool,
  type OpenTurn,
  resultMessages,
  type TurnCall,
  takeImages,
  UNANSWERED,
} from './history.ts';
import {
  forcedTool,
  type InjectedTools,
  noInjectedTools,
  type ToolSource,
  unforced,
  withoutForce,
} from './injected-tools.ts';
import { AnswerEvents, type EventSink } from './model-events.ts';
import { SendMetrics } from './send-metrics.ts';

export const AUTO_TOOL_CALL = 2;
export const HAND_BACK = 4;
/** The guest reads the answer while it is generated. */
export const STREAM = 8;

/** Runs a tool in the guest and returns its output or its error code. */
export type GuestToolCaller = (
  tool: GuestTool,
  args: string,
  maxOutputBytes: number,
) => Promise<{ readonly rc: number; readonly content: string }>;

export interface SendPorts {
  readonly backend: (name: string | undefined) => Promise<ChatBackend>;
  readonly callGuestTool: GuestToolCaller;
  /** Tools outside the guest; null: none. */
  readonly tools: ToolSource | null;
  /** Name of the session, for the tool source and the backend. */
  readonly session: string;
  /** Identifies the send in its run. @default its session */
  readonly ordinal?: string;
  readonly observer: SendObserver;
  /** Receives the events of the send; null: no reader. */
  readonly events: EventSink | null;
  /** Time left until the deadline of the send. */
  readonly timeLeftMs: () => number;
}

/** One request to a model, without its content. */
export interface ModelCall {
  readonly backend: string;
  /** undefined: the backend chooses. */
  readonly model: string | undefined;
  /** `ok`, `cancelled`, or the code of the error. */
  readonly outcome: string;
  readonly durationMs: number;
  /** Usage as counted by the provider; null: no answer, or not reported. */
  readonly usage: JsonObject | null;
}

/** Observer of a send, besides the guest. */
export interface SendObserver {
  readonly toolStarted: (call: TurnCall) => void;
  /** `outcome`: `ok`, or the code of the error. */
  readonly toolFinished: (call: TurnCall, outcome: string, durationMs: number) => void;
  readonly limitReached: (limit: NumberParam) => void;
  readonly modelAnswered: (call: ModelCall) => void;
  /** Internal error; the guest sees only `internal_error`. */
  readonly failed: (error: unknown) => void;
}

export interface SendOutcome {
  /** JSON. */
  readonly body: string;
  readonly metrics: SendMetrics;
  /** Ids of the tool calls that are handed back to the guest. */
  readonly pending: readonly string[];
}

/**
 * One `cchat_send`: calls the model, runs the tools that it requests, and repeats until the model answers or a limit is
 * reached.
 *
 * Invariant: also after an error or a cancellation each tool call in the history has exactly one result, because
 * providers reject any other history. Runs on the host thread; one send per session is in flight. Retries of a model
 * request are the backend's, and policy of MCP tools is the {@link InjectedTools}'.
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
  /** Messages for the model: the history, or a list that extends it, never a copy per turn. */
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

  /** Part of the request that is the same for all requests of a send, except a forced tool choice: first request only. */
  #request(model: string | undefined, injected: InjectedTools): ChatRequest {
    const history = this.#history;
    const own = [...history.tools.values()].map(({ definition }) => definition);
    // Without injected tools the same list object is reused, so that its JSON text is cached.
    const definitions = own.length === 0 ? injected.definitions : [...own, ...injected.definitions];
    const given = history.param('tool_choice');
    // A send that continues a handed-back turn is past its first request.
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

  /** Applies backpressure: waits until the guest has read the last answer. */
  async #whenRead(events: EventSink): Promise<AnswerEvents> {
    const room = events.room();
    if (room !== null) await untilAborted(room, this.#signal);
    return new AnswerEvents(events);
  }

  /** A plain send leaves tool calls to the guest. The history omits them, because no result would follow. */
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

  /** Produces results for all calls that are not handed back; the result of a failed call is its error. */
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
      : // A guest may hold a callback for as long as it likes; the send ends when it is notified to.
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

/** Inserts the system message of injected tools after the guest's own system messages, for this send only. */
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

/** Fields of an answer that providers accept in a request; they reject some fields that they add. */
function forHistory(message: JsonObject): JsonObject {
  const kept: JsonObject = { role: 'assistant', content: message.content ?? null };
  if (typeof message.refusal === 'string') kept.refusal = message.refusal;
  return kept;
}

/** Assigns unique ids to tool calls: some providers omit the id or repeat one. */
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

/** Tool calls of a message, with the ids of their results. */
function answerable(message: JsonObject, calls: readonly TurnCall[]): JsonValue[] {
  const given = message.tool_calls as JsonValue[];
  return calls.map(({ id, name, arguments: args }, index) => {
    const call = given[index];
    const fn = isJsonObject(call) ? call.function : undefined;
    if (isJsonObject(call) && isJsonObject(fn) && fn.arguments === args) return { ...call, id };
    return { id, type: 'function', function: { name, arguments: args } };
  });
}

/** Whether the result of an external tool is a failure. */
function isToolError(result: string): boolean {
  const answer = parseJson(result);
  return isJsonObject(answer) && answer.error !== undefined;
}

const aborted = { rc: -errno.ECANCELED, content: '' };

/** Arguments as JSON text; some providers send the object itself. */
const argumentsText = (given: JsonValue | undefined): string =>
  isJsonObject(given) ? canonicalJson(given) : textOr(given, '{}');

const textOr = (value: JsonValue | undefined, otherwise: string): string =>
  typeof value === 'string' ? value : otherwise;
