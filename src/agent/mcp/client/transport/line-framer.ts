/** A line that was longer than the bound: what is left of it. */
export interface OversizedLine {
  readonly head: Buffer;
  readonly tail: Buffer;
  readonly bytes: number;
}

export interface LineHandlers {
  /** Without its line feed. */
  line(bytes: Buffer): void;
  oversized(line: OversizedLine): void;
}

const NEWLINE = 0x0a;
/** Kept of an oversized line: enough to show how its text began, and which request it answers. */
export const HEAD_BYTES = 64 * 1024;
export const TAIL_BYTES = 256;

/** Cuts a byte stream into lines. Holds at most `maxBytes` of a line; what goes beyond is counted and dropped. */
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

  /** Bytes of the line that is not finished yet. */
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
 * Which request an answer belongs to that is too large to be parsed, or null where that cannot be told. The first
 * members of the outermost object and its last ones are where servers write the id, and the only places where a look
 * at the ends of the text is proof: nothing nested can stand there.
 */
export function answeredRequest(line: OversizedLine): string | number | null {
  const head = line.head.toString('latin1');
  const match = answerFirst.test(head) ? idLast.exec(line.tail.toString('latin1')) : idBeforeAnswer.exec(head);
  return match === null ? null : (JSON.parse(match[1] as string) as string | number);
}

const firstText = /"content"\s*:\s*\[\s*\{\s*(?:"type"\s*:\s*"text"\s*,\s*)?"text"\s*:\s*"/;

/** The beginning of the first text of a result, as far as the kept head goes; empty where it begins with no text. */
export function beginningOfText(head: Buffer): string {
  const json = head.toString('utf8');
  const match = firstText.exec(json);
  if (match === null) return '';
  const text = json.slice(match.index + match[0].length);
  try {
    // The replacement character stands for a character that the end of the head cut in two.
    return (JSON.parse(`"${text.slice(0, stringEnd(text))}"`) as string).toWellFormed().replace(/\uFFFD+$/, '');
  } catch {
    return '';
  }
}

/** Where the string ends, or where its last whole character does. */
function stringEnd(text: string): number {
  let at = 0;
  while (at < text.length && text[at] !== '"') {
    const step = text[at] !== '\\' ? 1 : text[at + 1] === 'u' ? 6 : 2;
    if (at + step > text.length) break;
    at += step;
  }
  return at;
}
