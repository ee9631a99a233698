import { createParser } from 'eventsource-parser';
import { errorCode, errorText } from '../../../base/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../../base/json.ts';
import { knownSecrets } from '../../../server/secrets/redactor.ts';
import { type AnswerDeltas, BackendError } from '../backend.ts';
import { reasoningOf } from '../model-events.ts';
import type { BackendFailures } from './failures.ts';
import type { BodyReader, Headers } from './post.ts';

/*
 * Reads a provider's response: limits of size, server-sent events, assembly of a stream into one completion, and redaction.
 * One reader per request, on the host thread; chunks arrive in order, and `room` of the deltas applies backpressure to the
 * connection. Retries and deadlines are the backend's.
 */

/** Larger error bodies are web pages and are not read. */
const MAX_ERROR_BODY_BYTES = 64 * 1024;
const END_OF_STREAM = '[DONE]';

/**
 * Reads a `chat.completion` body from a 2xx response, streamed or whole; deltas of a stream are emitted as they arrive.
 * Known secrets are redacted, because a gateway may echo the key.
 */
export function answerReader(
  headers: Headers,
  maxBytes: number,
  failures: BackendFailures,
  deltas: CleanDeltas | null = null,
): BodyReader<JsonObject> {
  const contentType = String(headers['content-type'] ?? '').toLowerCase();
  const isStream = contentType.includes('text/event-stream');
  return isStream ? new StreamReader(maxBytes, failures, deltas) : new WholeReader(maxBytes, failures);
}

/** Text of an error body; empty: too long or incomplete. */
export class ErrorTextReader implements BodyReader<string> {
  readonly #portions = new Portions(MAX_ERROR_BODY_BYTES);

  take(portion: Uint8Array): string | undefined {
    return this.#portions.add(portion) ? undefined : '';
  }

  end(): string {
    return this.#portions.text();
  }

  broken(): string {
    return '';
  }
}

class WholeReader implements BodyReader<JsonObject> {
  readonly #portions: Portions;
  readonly #failures: BackendFailures;

  constructor(maxBytes: number, failures: BackendFailures) {
    this.#portions = new Portions(maxBytes);
    this.#failures = failures;
  }

  take(portion: Uint8Array): undefined {
    if (!this.#portions.add(portion)) throw this.#failures.tooLarge(this.#portions.maxBytes);
  }

  end(): JsonObject {
    const text = this.#portions.text();
    const parsed = parseJson(text);
    if (parsed === undefined) throw this.#failures.badResponse('it is not JSON', text);
    if (!isJsonObject(parsed)) throw this.#failures.badResponse('it is not a JSON object', text);
    return knownSecrets.clean(completion(parsed, this.#failures), text);
  }

  broken(error: unknown): never {
    throw this.#failures.connectionLost(errorCode(error) ?? errorText(error));
  }
}

class StreamReader implements BodyReader<JsonObject> {
  readonly #decoder = new SseDecoder();
  readonly #assembly = new CompletionAssembly();
  readonly #maxBytes: number;
  readonly #failures: BackendFailures;
  readonly #deltas: CleanDeltas | null;
  #bytes = 0;

  constructor(maxBytes: number, failures: BackendFailures, deltas: CleanDeltas | null) {
    this.#maxBytes = maxBytes;
    this.#failures = failures;
    this.#deltas = deltas;
  }

  room(): Promise<void> | null {
    return this.#deltas === null ? null : this.#deltas.room();
  }

  take(portion: Uint8Array): JsonObject | undefined {
    this.#bytes += portion.length;
    if (this.#bytes > this.#maxBytes) throw this.#failures.tooLarge(this.#maxBytes);
    return this.#orBroken(() => {
      for (const data of this.#decoder.push(portion)) {
        if (data === END_OF_STREAM) return this.#finished();
        if (data !== '') this.#add(data);
      }
      return undefined;
    });
  }

  end(): JsonObject {
    return this.#orBroken(() => {
      const rest = this.#decoder.end();
      if (rest !== END_OF_STREAM) {
        if (rest !== undefined && parseJson(rest) !== undefined) this.#add(rest);
        // Some providers omit [DONE]; all send a finish reason.
        if (!this.#assembly.finished) throw this.#failures.streamBroken();
      }
      return this.#finished();
    });
  }

  broken(): never {
    throw this.#failures.streamBroken();
  }

  #add(data: string): void {
    const chunk = parseChunk(data, this.#failures);
    this.#assembly.add(chunk);
    this.#deltas?.add(chunk);
  }

  #finished(): JsonObject {
    const body = completion(this.#assembly.body(), this.#failures);
    this.#deltas?.end();
    return knownSecrets.clean(body);
  }

  /** A malformed stream is treated like an interrupted one. */
  #orBroken<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (error) {
      throw error instanceof BackendError ? error : this.#failures.streamBroken();
    }
  }
}

/** Collects the chunks of a body, up to a number of bytes. */
class Portions {
  readonly maxBytes: number;
  readonly #portions: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** False: the limit is exceeded. */
  add(portion: Uint8Array): boolean {
    this.#bytes += portion.length;
    this.#portions.push(portion);
    return this.#bytes <= this.maxBytes;
  }

  text(): string {
    const [only] = this.#portions;
    // Most bodies are one chunk, which is decoded without a copy.
    if (this.#portions.length === 1 && only !== undefined) {
      return Buffer.from(only.buffer, only.byteOffset, only.byteLength).toString('utf8');
    }
    return Buffer.concat(this.#portions).toString('utf8');
  }
}

function completion(body: JsonObject, failures: BackendFailures): JsonObject {
  if (body.error !== undefined && body.error !== null) throw failures.errorObject(body.error);
  const first = Array.isArray(body.choices) ? body.choices[0] : undefined;
  if (!isJsonObject(first) || !isJsonObject(first.message)) throw failures.badResponse('it has no choices[0].message');
  return body;
}

function parseChunk(data: string, failures: BackendFailures): JsonObject {
  const chunk = parseJson(data);
  if (chunk === undefined) throw failures.badResponse('an event of its stream is not JSON', data);
  if (!isJsonObject(chunk)) throw failures.badResponse('an event of its stream is not a JSON object', data);
  if (chunk.error !== undefined && chunk.error !== null) throw failures.errorObject(chunk.error);
  return chunk;
}

/** Decoder of server-sent events: takes chunks of bytes, returns the data of complete events. */
export class SseDecoder {
  readonly #utf8 = new TextDecoder();
  // A completion uses only `data`, not comments or the fields event, id and retry.
  readonly #parser = createParser({ onEvent: ({ data }) => this.#events.push(data) });
  #events: string[] = [];

  /** Data of the events that these bytes complete. */
  push(bytes: Uint8Array): string[] {
    this.#parser.feed(this.#utf8.decode(bytes, { stream: true }));
    return this.#take();
  }

  /** Data after the last blank line: an event without its terminator, or a truncated event. */
  end(): string | undefined {
    this.#parser.feed(`${this.#utf8.decode()}\n\n`);
    return this.#take()[0];
  }

  #take(): string[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }
}

const KEPT_AT_THE_TOP = ['id', 'created', 'model', 'system_fingerprint', 'service_tier'];

interface Choice {
  finishReason: JsonValue;
  message: JsonObject;
  toolCalls: Map<number, JsonObject>;
  /** Fields beside the delta, such as logprobs. */
  extra: JsonObject;
}

/** Assembles a `chat.completion` body from the chunks of a stream. */
export class CompletionAssembly {
  readonly #top: JsonObject = {};
  readonly #choices = new Map<number, Choice>();

  add(chunk: JsonObject): void {
    for (const key of KEPT_AT_THE_TOP) {
      const value = chunk[key];
      if (value !== undefined && value !== null && value !== '') this.#top[key] ??= value;
    }
    // Some providers send cumulative usage in every chunk; the last one is the total.
    if (isJsonObject(chunk.usage)) this.#top.usage = chunk.usage;
    if (!Array.isArray(chunk.choices)) return;
    for (const part of chunk.choices) if (isJsonObject(part)) this.#addToChoice(part);
  }

  /** Whether every choice seen so far has its finish reason. */
  get finished(): boolean {
    return this.#choices.size > 0 && [...this.#choices.values()].every((choice) => choice.finishReason !== null);
  }

  body(): JsonObject {
    const choices = byIndex(this.#choices).map(([index, choice]) => {
      const { message, toolCalls } = choice;
      if (toolCalls.size > 0) message.tool_calls = byIndex(toolCalls).map(([, call]) => call);
      return { ...choice.extra, finish_reason: choice.finishReason, index, message };
    });
    return { ...this.#top, choices, object: 'chat.completion' };
  }

  #addToChoice(part: JsonObject): void {
    const { index, delta, finish_reason: finishReason, ...extra } = part;
    const choice = getOrMake(this.#choices, indexOf(index) ?? 0, () => ({
      finishReason: null,
      message: { content: null, role: 'assistant' },
      toolCalls: new Map<number, JsonObject>(),
      extra: {},
    }));
    if (typeof finishReason === 'string') choice.finishReason = finishReason;
    merge(choice.extra, extra);
    if (!isJsonObject(delta)) return;
    const { role, tool_calls: toolCalls, ...texts } = delta;
    if (typeof role === 'string' && role !== '') choice.message.role = role;
    merge(choice.message, texts);
    if (!Array.isArray(toolCalls)) return;
    for (const call of toolCalls) if (isJsonObject(call)) addToolCall(choice.toolCalls, call);
  }
}

function addToolCall(calls: Map<number, JsonObject>, part: JsonObject): void {
  const { index, id, type, function: fn, ...extra } = part;
  const call = getOrMake(calls, indexOf(index) ?? placeWithoutIndex(calls, id), () => ({
    function: { arguments: '', name: '' },
    id: '',
    type: 'function',
  }));
  if (typeof id === 'string' && id !== '') call.id = id;
  if (typeof type === 'string' && type !== '') call.type = type;
  merge(call, extra);
  if (!isJsonObject(fn) || !isJsonObject(call.function)) return;
  const { name, ...rest } = fn;
  // A name may be split over chunks; some providers repeat the whole name in every chunk.
  if (typeof name === 'string' && name !== call.function.name) call.function.name += name;
  merge(call.function, rest);
}

/** Index of a tool call. If the provider omits it, a new id starts a new call and a part without id continues the last. */
function placeWithoutIndex(calls: Map<number, JsonObject>, id: JsonValue | undefined): number {
  const places = [...calls.keys()].sort((a, b) => a - b);
  if (typeof id !== 'string' || id === '') return places.at(-1) ?? 0;
  return places.find((place) => calls.get(place)?.id === id) ?? (places.at(-1) ?? -1) + 1;
}

/** Adds a delta: texts and lists are appended, objects merged, anything else replaced; null adds nothing. */
function merge(target: JsonObject, delta: JsonObject): void {
  for (const [key, value] of Object.entries(delta)) {
    if (key === '__proto__') continue;
    const before = target[key];
    if (typeof before === 'string' && typeof value === 'string') target[key] = before + value;
    else if (Array.isArray(before) && Array.isArray(value)) for (const item of value) before.push(item);
    else if (isJsonObject(before) && isJsonObject(value)) merge(before, value);
    else if (value !== null || before === undefined) target[key] = value;
  }
}

function indexOf(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function getOrMake<Value>(map: Map<number, Value>, key: number, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function byIndex<Value>(map: Map<number, Value>): [number, Value][] {
  return [...map].sort(([a], [b]) => a - b);
}

/**
 * Redacts known secrets from the deltas of a stream, also secrets that are split over deltas: a gateway may echo the
 * key.
 */
export class CleanDeltas {
  readonly #out: AnswerDeltas;
  readonly #onFirst: () => void;
  #kind: 'text' | 'reasoning' = 'text';
  /** Held back, because it may be the start of a secret. */
  #held = '';
  #began = false;

  constructor(out: AnswerDeltas, onFirst: () => void) {
    this.#out = out;
    this.#onFirst = onFirst;
  }

  /** Adds a chunk. Emits the first choice only. */
  add(chunk: JsonObject): void {
    if (!this.#began) this.#onFirst();
    this.#began = true;
    if (!Array.isArray(chunk.choices)) return;
    for (const choice of chunk.choices) {
      if (!isJsonObject(choice) || !isJsonObject(choice.delta) || (choice.index ?? 0) !== 0) continue;
      this.#take('reasoning', reasoningOf(choice.delta));
      this.#take('text', typeof choice.delta.content === 'string' ? choice.delta.content : undefined);
    }
  }

  room(): Promise<void> | null {
    return this.#out.room();
  }

  /** Emits the held text at the end of the stream. */
  end(): void {
    this.#emit(this.#held);
    this.#held = '';
  }

  #take(kind: 'text' | 'reasoning', delta: string | undefined): void {
    if (delta === undefined || delta === '') return;
    if (kind !== this.#kind) this.end();
    this.#kind = kind;
    const text = this.#held + delta;
    const settled = knownSecrets.settledLength(text);
    this.#held = text.slice(settled);
    this.#emit(text.slice(0, settled));
  }

  #emit(text: string): void {
    if (text !== '') this.#out[this.#kind](knownSecrets.redact(text));
  }
}
