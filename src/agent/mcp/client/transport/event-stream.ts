import { createParser } from 'eventsource-parser';
import { LineFramer, type OversizedLine } from './line-framer.ts';

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

const LINE_FEED = Buffer.from('\n');
const CARRIAGE_RETURN = 0x0d;
const dataField = /^data: ?/;

export interface EventStreamFilterDeps {
  readonly maxMessageBytes: number;
  /** Takes what goes on to the parser of events. */
  pass(bytes: Buffer): void;
  /** A data line beyond the bound; it is left out, so that its event reaches nobody. */
  oversized(line: OversizedLine): void;
}

/**
 * Bounds server-sent events before a parser collects them. Throws where one event is larger than the bound without any
 * line of it being so.
 */
export class EventStreamFilter {
  readonly #deps: EventStreamFilterDeps;
  readonly #framer: LineFramer;
  #eventBytes = 0;

  constructor(deps: EventStreamFilterDeps) {
    this.#deps = deps;
    this.#framer = new LineFramer(deps.maxMessageBytes, {
      line: (bytes) => this.#line(bytes),
      oversized: ({ head, tail, bytes }) => {
        const prefix = dataField.exec(head.subarray(0, 'data: '.length).toString('latin1'));
        deps.oversized({ head: head.subarray(prefix?.[0].length ?? 0), tail: withoutReturn(tail), bytes });
      },
    });
  }

  push(chunk: Uint8Array): void {
    this.#framer.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
  }

  #line(bytes: Buffer): void {
    const empty = bytes.length === 0 || (bytes.length === 1 && bytes[0] === CARRIAGE_RETURN);
    this.#eventBytes = empty ? 0 : this.#eventBytes + bytes.length;
    if (this.#eventBytes > this.#deps.maxMessageBytes)
      throw new RangeError('an event exceeds the maximum message size');
    this.#deps.pass(Buffer.concat([bytes, LINE_FEED]));
  }
}

function withoutReturn(tail: Buffer): Buffer {
  return tail.at(-1) === CARRIAGE_RETURN ? tail.subarray(0, -1) : tail;
}

/** Where the server does not say how long. */
const DEFAULT_DELAY_MS = 1_000;
/** What it says is not taken at its word below this; if streams go on to bring nothing, the bound rises to the default. */
export const MIN_DELAY_MS = 100;
const GROWTH = 1.5;
/** What it says beyond this is no wait but an end: the call has a deadline. */
const MAX_DELAY_MS = 10 * 60_000;
/** In a row. At one a second that is longer than nearly every call may take. */
export const MAX_EMPTY_STREAMS = 1_000;

/** How soon a stream that a server closed is asked for again, and whether at all: a server that says "at once" is not obeyed. */
export class ResumePace {
  #emptyStreams = 0;

  /** The stream brought something, or was open for long enough to be meant. */
  reset(): void {
    this.#emptyStreams = 0;
  }

  /** `wantedMs`: what the server asked for, if it did. Null: it is given up. */
  nextMs(wantedMs: number | null): number | null {
    if (this.#emptyStreams >= MAX_EMPTY_STREAMS) return null;
    const least = Math.min(MIN_DELAY_MS * GROWTH ** this.#emptyStreams, DEFAULT_DELAY_MS);
    this.#emptyStreams += 1;
    return Math.min(Math.max(wantedMs ?? DEFAULT_DELAY_MS, least), MAX_DELAY_MS);
  }
}
