import { createParser } from 'eventsource-parser';
import { LineFramer, type OversizedLine } from './line-framer.ts';

export interface EventStreamHandlers {
  readonly maxMessageBytes: number;
  /** Data of a `message` event. */
  message(data: string): void;
  /** The stream can be resumed after this event. */
  eventId(id: string): void;
  retry(delayMs: number): void;
  /** A data line exceeded the limit; its event is dropped. */
  oversized(line: OversizedLine): void;
}

const BYTE_ORDER_MARK = '\uFEFF';

/** Bounded parser of server-sent events, as far as MCP uses them. Throws as {@link EventStreamFilter} does. */
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
      // Whole lines, so no character is split.
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
  /** Receives the lines for the event parser. */
  pass(bytes: Buffer): void;
  /** A data line exceeded the limit. It is left out, which drops its event. */
  oversized(line: OversizedLine): void;
}

/** Bounds server-sent events before a parser buffers them. @throws RangeError if the lines of one event exceed the limit together */
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

/** Delay if the server names none. */
const DEFAULT_DELAY_MS = 1_000;
/** Lower bound of the server's delay; it rises to the default while streams bring no message. */
export const MIN_DELAY_MS = 100;
const GROWTH = 1.5;
/** Upper bound of the server's delay. */
const MAX_DELAY_MS = 10 * 60_000;
/** Consecutive streams without a message before resuming is given up. */
export const MAX_EMPTY_STREAMS = 1_000;

/** Backoff for resuming a stream that the server closed. A server that requests an immediate retry is slowed down. */
export class ResumePace {
  #emptyStreams = 0;

  /** The stream brought a message, or stayed open long enough. */
  reset(): void {
    this.#emptyStreams = 0;
  }

  /** `wantedMs`: the delay that the server requested, if any. Returns null to give up. */
  nextMs(wantedMs: number | null): number | null {
    if (this.#emptyStreams >= MAX_EMPTY_STREAMS) return null;
    const least = Math.min(MIN_DELAY_MS * GROWTH ** this.#emptyStreams, DEFAULT_DELAY_MS);
    this.#emptyStreams += 1;
    return Math.min(Math.max(wantedMs ?? DEFAULT_DELAY_MS, least), MAX_DELAY_MS);
  }
}
