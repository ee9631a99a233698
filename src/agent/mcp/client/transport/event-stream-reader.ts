import { createParser } from 'eventsource-parser';
import { EventStreamFilter } from './event-stream-filter.ts';
import type { OversizedLine } from './line-framer.ts';

export interface EventStreamHandlers {
  readonly maxMessageBytes: number;
  /** The data of an event that is a message. */
  message(data: string): void;
  /** From here on the stream could be asked for again. */
  eventId(id: string): void;
  retry(delayMs: number): void;
  /** A data line beyond the bound; its event reaches nobody. */
  oversized(line: OversizedLine): void;
}

const BYTE_ORDER_MARK = '\uFEFF';

/** Server-sent events, bounded, as far as MCP uses them. Throws where the filter does. */
export class EventStreamReader {
  readonly #filter: EventStreamFilter;
  #isFirst = true;

  constructor(handlers: EventStreamHandlers) {
    const parser = createParser({
      onEvent: ({ id, event = 'message', data }) => {
        if (id !== undefined && id !== '') handlers.eventId(id);
        if (data !== '' && event === 'message') handlers.message(data);
      },
      onRetry: (delayMs) => handlers.retry(delayMs),
    });
    this.#filter = new EventStreamFilter({
      maxMessageBytes: handlers.maxMessageBytes,
      // Whole lines, so no character is ever cut in two.
      pass: (bytes) => parser.feed(this.#withoutMark(bytes.toString('utf8'))),
      oversized: (line) => handlers.oversized(line),
    });
  }

  push(chunk: Uint8Array): void {
    this.#filter.push(chunk);
  }

  #withoutMark(line: string): string {
    const hasMark = this.#isFirst && line.startsWith(BYTE_ORDER_MARK);
    this.#isFirst = false;
    return hasMark ? line.slice(1) : line;
  }
}
