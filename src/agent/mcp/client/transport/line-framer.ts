/** The retained ends of a line that exceeded the limit. */
export interface OversizedLine {
  readonly head: Buffer;
  readonly tail: Buffer;
  readonly bytes: number;
}

export interface LineHandlers {
  /** Without the line feed. */
  line(bytes: Buffer): void;
  oversized(line: OversizedLine): void;
}

const NEWLINE = 0x0a;
/** Retained of an oversized line: enough for the beginning of its text and for the id of its request. */
export const HEAD_BYTES = 64 * 1024;
export const TAIL_BYTES = 256;

/** Splits a byte stream into lines. Buffers at most `maxBytes` of a line; further bytes are counted and dropped. */
export class LineFramer {
  readonly #maxBytes: number;
  readonly #handlers: LineHandlers;
  #parts: Buffer[] = [];
  #bytes = 0;
  #oversized: { head: Buffer; tail: Buffer } | null = null;

  constructor(maxBytes: number, handlers: LineHandlers) {
    this.#maxBytes = maxBytes;
    this.#handlers = handlers;
  }

  /** Bytes of the unfinished line. */
  get pendingBytes(): number {
    return this.#bytes;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#append(chunk.subarray(start, end));
      this.#finish();
      start = end + 1;
    }
    if (start < chunk.length) this.#append(chunk.subarray(start));
  }

  #append(part: Buffer): void {
    if (part.length === 0) return;
    this.#bytes += part.length;
    if (this.#oversized !== null) {
      this.#oversized.tail = lastBytes(this.#oversized.tail, part);
    } else if (this.#bytes <= this.#maxBytes) {
      this.#parts.push(part);
    } else {
      const kept = Buffer.concat([...this.#parts, part]);
      this.#oversized = {
        head: Buffer.from(kept.subarray(0, HEAD_BYTES)),
        tail: Buffer.from(kept.subarray(-TAIL_BYTES)),
      };
      this.#parts = [];
    }
  }

  #finish(): void {
    const oversized = this.#oversized;
    const bytes = this.#bytes;
    const parts = this.#parts;
    this.#parts = [];
    this.#bytes = 0;
    this.#oversized = null;
    if (oversized !== null) {
      this.#handlers.oversized({ ...oversized, bytes });
      return;
    }
    this.#handlers.line(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
  }
}

function lastBytes(before: Buffer, part: Buffer): Buffer {
  if (part.length >= TAIL_BYTES) return Buffer.from(part.subarray(-TAIL_BYTES));
  return Buffer.concat([before, part]).subarray(-TAIL_BYTES);
}

const version = String.raw`"jsonrpc"\s*:\s*"2\.0"\s*`;
const id = String.raw`"id"\s*:\s*(\d+|"spear-\d+")\s*`;
const answer = String.raw`"(?:result|error)"\s*:`;
const idBeforeAnswer = new RegExp(String.raw`^\s*\{\s*(?:${version},\s*)?${id},\s*(?:${version},\s*)?${answer}`);
const answerFirst = new RegExp(String.raw`^\s*\{\s*(?:${version},\s*)?${answer}`);
const idLast = new RegExp(String.raw`,\s*${id}(?:,\s*${version})?\}\s*$`);

/**
 * Finds the request that an oversized response answers; null: unknown. Only the first and the last members of the
 * outermost object are examined: servers write the id there, and no nested value can match at either end.
 */
export function answeredRequest(line: OversizedLine): string | number | null {
  const head = line.head.toString('latin1');
  const match = answerFirst.test(head) ? idLast.exec(line.tail.toString('latin1')) : idBeforeAnswer.exec(head);
  return match === null ? null : (JSON.parse(match[1] as string) as string | number);
}

const firstText = /"content"\s*:\s*\[\s*\{\s*(?:"type"\s*:\s*"text"\s*,\s*)?"text"\s*:\s*"/;

/** The beginning of a result's first text, as far as the retained head goes; empty if the result starts with no text. */
export function beginningOfText(head: Buffer): string {
  const json = head.toString('utf8');
  const match = firstText.exec(json);
  if (match === null) return '';
  const text = json.slice(match.index + match[0].length);
  try {
    // The end of the head may split a character, which decodes to the replacement character.
    return (JSON.parse(`"${text.slice(0, stringEnd(text))}"`) as string).toWellFormed().replace(/\uFFFD+$/, '');
  } catch {
    return '';
  }
}

/** Index after the last whole character of the string. */
function stringEnd(text: string): number {
  let at = 0;
  while (at < text.length && text[at] !== '"') {
    const step = text[at] !== '\\' ? 1 : text[at + 1] === 'u' ? 6 : 2;
    if (at + step > text.length) break;
    at += step;
  }
  return at;
}
