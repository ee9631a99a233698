/** Longest text that is looked up before it is decoded; roles, keys and names of servers and tools are shorter. */
export const SHORT_TEXT_BYTES = 24;

const SLOTS = 64;

/**
 * Short texts that were decoded before. A guest says `user` a thousand times, and making a string of it costs ten times
 * as much as seeing that its bytes are the same again. Texts of ASCII only: their bytes are their characters.
 */
export class ShortTexts {
  /** Made at the first text: most guests that wait have said little. */
  #texts: string[] | null = null;

  /** Precondition: the range is inside, and at most {@link SHORT_TEXT_BYTES} long. */
  read(bytes: Uint8Array, ptr: number, length: number, decode: (ptr: number, length: number) => string): string {
    const slot =
      length === 0 ? 0 : ((bytes[ptr] as number) * 31 + (bytes[ptr + length - 1] as number) * 7 + length) % SLOTS;
    this.#texts ??= Array.from({ length: SLOTS }, () => '');
    const known = this.#texts[slot] as string;
    if (known.length === length && isSame(known, bytes, ptr, length)) return known;
    const text = decode(ptr, length);
    if (isSame(text, bytes, ptr, length)) this.#texts[slot] = text;
    return text;
  }
}

function isSame(text: string, bytes: Uint8Array, ptr: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let at = 0; at < length; at++) if (text.charCodeAt(at) !== bytes[ptr + at]) return false;
  return true;
}
