import type { EventSink, ModelEvent } from '../agent/chat/model-event.ts';
import { canonicalJson } from '../base/json.ts';
import { STREAM_WINDOW_BYTES } from '../runtime/port/port.ts';

/**
 * The events of a streamed send on their way to the guest's thread, as lines of JSON. What the guest has not read is
 * bounded: beyond the window there is no room, and who makes the events stops.
 */
export class ResponseStream implements EventSink {
  readonly #post: (lines: string) => void;
  /** Of one turn of the event loop; they go together. */
  #lines = '';
  #unreadBytes = 0;
  #room: PromiseWithResolvers<void> | null = null;

  constructor(post: (lines: string) => void) {
    this.#post = post;
  }

  emit(event: ModelEvent): void {
    if (this.#lines === '') queueMicrotask(() => this.flush());
    this.#lines += `${canonicalJson({ ...event })}\n`;
  }

  room(): Promise<void> | null {
    if (this.#unreadBytes + this.#lines.length < STREAM_WINDOW_BYTES) return null;
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** The guest has read so much; never more than there was: what it says is not trusted. */
  read(bytes: number): void {
    this.#unreadBytes = Math.max(0, this.#unreadBytes - bytes);
    if (this.#room === null || this.#unreadBytes >= STREAM_WINDOW_BYTES) return;
    this.#room.resolve();
    this.#room = null;
  }

  /** Before the last word of the send: nothing may follow that. */
  flush(): void {
    if (this.#lines === '') return;
    const lines = this.#lines;
    this.#lines = '';
    this.#unreadBytes += Buffer.byteLength(lines);
    this.#post(lines);
  }
}
