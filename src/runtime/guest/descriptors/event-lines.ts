const LINE_END = 0x0a;
const NOTHING = new Uint8Array();

/** Lines that came from the host and wait to be read: bytes, each line with its end. */
export class EventLines {
  #bytes: Uint8Array = NOTHING;
  /** What came after {@link #bytes}; joined to it when somebody reads. */
  #more: Uint8Array[] = [];
  #length = 0;

  get byteLength(): number {
    return this.#length;
  }

  push(lines: Uint8Array): void {
    this.#more.push(lines);
    this.#length += lines.byteLength;
  }

  /**
   * As many whole lines as fit into so many bytes, and they are taken out. If not even the first one fits it is that
   * line, and it stays.
   */
  take(capacity: number): Uint8Array {
    if (this.#more.length > 0) this.#join();
    const lines = this.#bytes;
    const end = lines.byteLength <= capacity ? lines.byteLength : this.#lastEndWithin(capacity);
    if (end === 0) return lines.subarray(0, lines.indexOf(LINE_END) + 1);
    this.#bytes = lines.subarray(end);
    this.#length -= end;
    return lines.subarray(0, end);
  }

  clear(): void {
    this.#bytes = NOTHING;
    this.#more = [];
    this.#length = 0;
  }

  #lastEndWithin(capacity: number): number {
    return capacity === 0 ? 0 : this.#bytes.lastIndexOf(LINE_END, capacity - 1) + 1;
  }

  #join(): void {
    const [first] = this.#more;
    const alone = this.#more.length === 1 && this.#bytes.byteLength === 0;
    this.#bytes = alone && first ? first : Buffer.concat([this.#bytes, ...this.#more]);
    this.#more = [];
  }
}
