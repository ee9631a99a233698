import { untilAborted } from '../../base/abort.ts';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { AnswerDeltas } from './backend.ts';
import { messageText } from './backends/message-text.ts';
import type { EventSink } from './model-event.ts';

/** A longer delta becomes several: a guest need not have a large buffer because a provider sends large pieces. */
export const MAX_DELTA_CHARS = 4096;

/** One answer of a model as events: its deltas, or the whole of it from a backend that makes none. */
export class AnswerEvents implements AnswerDeltas {
  readonly #sink: EventSink;
  #told = false;

  constructor(sink: EventSink) {
    this.#sink = sink;
  }

  text(delta: string): void {
    this.#tell('text', delta);
  }

  reasoning(delta: string): void {
    this.#tell('reasoning', delta);
  }

  room(): Promise<void> | null {
    return this.#sink.room();
  }

  /** The answer is there. */
  async finish(body: JsonObject, signal: AbortSignal): Promise<void> {
    if (!this.#told) {
      const message = firstMessage(body);
      await this.#tellWhole('reasoning', reasoningOf(message) ?? '', signal);
      await this.#tellWhole('text', messageText(message), signal);
    }
    if (isJsonObject(body.usage)) this.#sink.emit({ type: 'usage', usage: body.usage });
  }

  #tell(type: 'text' | 'reasoning', delta: string): void {
    for (const text of pieces(delta)) {
      this.#told = true;
      this.#sink.emit({ type, text });
    }
  }

  async #tellWhole(type: 'text' | 'reasoning', whole: string, signal: AbortSignal): Promise<void> {
    for (const text of pieces(whole)) {
      const room = this.room();
      if (room !== null) await untilAborted(room, signal);
      this.#sink.emit({ type, text });
    }
  }
}

/** Under either of the names that providers give it. */
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
