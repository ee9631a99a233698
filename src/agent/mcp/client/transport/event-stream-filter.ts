import { LineFramer, type OversizedLine } from './line-framer.ts';

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
