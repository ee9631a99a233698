import { untilAborted } from '../../base/abort.ts';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { type AnswerDeltas, messageText } from './backend.ts';

/** Event of a send, as guests read it with `cchat_read`. */
export type ModelEvent =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  /** The model requested this call; its arguments are complete. */
  | { readonly type: 'tool_start'; readonly id: string; readonly name: string }
  | { readonly type: 'tool_result'; readonly id: string; readonly name: string; readonly ok: boolean }
  /** Usage of one model answer, as counted by the provider. */
  | { readonly type: 'usage'; readonly usage: JsonObject }
  /** Error object of the body. */
  | { readonly type: 'error'; readonly error: JsonObject }
  /** Last event: the finish reason of the last answer, or `error`. */
  | { readonly type: 'end'; readonly finish_reason: string };

/** Receives the events of one send, in order. */
export interface EventSink {
  emit(event: ModelEvent): void;
  /** Backpressure: null if there is room, else a promise that resolves when there is. */
  room(): Promise<void> | null;
}

/** Combines sinks; the slowest sets the pace. */
export function everySink(sinks: readonly EventSink[]): EventSink | null {
  if (sinks.length < 2) return sinks[0] ?? null;
  return {
    emit: (event) => {
      for (const sink of sinks) sink.emit(event);
    },
    room: () => {
      const full = sinks.map((sink) => sink.room()).filter((room) => room !== null);
      return full.length === 0 ? null : Promise.all(full).then(() => {});
    },
  };
}

/** Longer deltas are split, so that guests need no large buffer. */
export const MAX_DELTA_CHARS = 4096;

/** Emits one model answer as events: its deltas, or the whole answer if the backend sends no deltas. */
export class AnswerEvents implements AnswerDeltas {
  readonly #sink: EventSink;
  #hasDeltas = false;

  constructor(sink: EventSink) {
    this.#sink = sink;
  }

  text(delta: string): void {
    this.#emit('text', delta);
  }

  reasoning(delta: string): void {
    this.#emit('reasoning', delta);
  }

  room(): Promise<void> | null {
    return this.#sink.room();
  }

  /** The answer is complete. */
  async finish(body: JsonObject, signal: AbortSignal): Promise<void> {
    if (!this.#hasDeltas) {
      const message = firstMessage(body);
      await this.#emitWhole('reasoning', reasoningOf(message) ?? '', signal);
      await this.#emitWhole('text', messageText(message), signal);
    }
    if (isJsonObject(body.usage)) this.#sink.emit({ type: 'usage', usage: body.usage });
  }

  #emit(type: 'text' | 'reasoning', delta: string): void {
    for (const text of pieces(delta)) {
      this.#hasDeltas = true;
      this.#sink.emit({ type, text });
    }
  }

  async #emitWhole(type: 'text' | 'reasoning', whole: string, signal: AbortSignal): Promise<void> {
    for (const text of pieces(whole)) {
      const room = this.room();
      if (room !== null) await untilAborted(room, signal);
      this.#sink.emit({ type, text });
    }
  }
}

/** Reasoning text, under either of the names that providers use. */
export function reasoningOf(message: JsonObject): string | undefined {
  return [message.reasoning_content, message.reasoning].find((text) => typeof text === 'string' && text !== '') as
    | string
    | undefined;
}

function firstMessage(body: JsonObject): JsonObject {
  const first = Array.isArray(body.choices) ? body.choices[0] : undefined;
  return isJsonObject(first) && isJsonObject(first.message) ? first.message : {};
}

function* pieces(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + MAX_DELTA_CHARS, text.length);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    yield text.slice(at, end);
    at = end;
  }
}

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit <= 0xdbff;
