import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';

const KEPT_AT_THE_TOP = ['id', 'created', 'model', 'system_fingerprint', 'service_tier'];

interface Choice {
  finishReason: JsonValue;
  message: JsonObject;
  toolCalls: Map<number, JsonObject>;
  /** What a provider adds beside the delta: logprobs, and keys of its own. */
  extra: JsonObject;
}

/** Builds the `chat.completion` body that the chunks of a stream add up to. */
export class CompletionAssembly {
  readonly #top: JsonObject = {};
  readonly #choices = new Map<number, Choice>();

  add(chunk: JsonObject): void {
    for (const key of KEPT_AT_THE_TOP) {
      const value = chunk[key];
      if (value !== undefined && value !== null && value !== '') this.#top[key] ??= value;
    }
    // Some providers count on in every chunk; the last word is the total.
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
  // A name may come in pieces, and some providers repeat the whole of it in every chunk.
  if (typeof name === 'string' && name !== call.function.name) call.function.name += name;
  merge(call.function, rest);
}

/** Where a provider leaves the index out, a new id starts a new call and a part without one goes on with the last. */
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
