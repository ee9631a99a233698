import { createParser } from 'eventsource-parser';

/** Takes server-sent events apart: bytes in any portions go in, the data of whole events comes out. */
export class SseDecoder {
  readonly #utf8 = new TextDecoder();
  // Comments and the fields event, id and retry carry nothing that a completion needs.
  readonly #parser = createParser({ onEvent: ({ data }) => this.#events.push(data) });
  #events: string[] = [];

  /** The data of the events that these bytes finish. */
  push(bytes: Uint8Array): string[] {
    this.#parser.feed(this.#utf8.decode(bytes, { stream: true }));
    return this.#take();
  }

  /** What came after the last blank line: an event that lacks only its end, or one that was cut off. */
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
