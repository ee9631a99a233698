/** The first `maxUnits` UTF-16 units of a text, or one less where they would end inside a character. */
export function startOf(text: string, maxUnits: number): string {
  if (text.length <= maxUnits) return text;
  const last = text.charCodeAt(maxUnits - 1);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, isHalf ? maxUnits - 1 : maxUnits);
}

/** {@link startOf}, with an ellipsis where something was cut. */
export function cutText(text: string, maxUnits: number): string {
  return text.length <= maxUnits ? text : `${startOf(text, maxUnits)}…`;
}

/**
 * How many UTF-16 units of `text` fit into `maxBytes` when it is written as a JSON string in UTF-8, without the
 * quotes. Never ends inside a character.
 */
export function unitsThatFit(text: string, maxBytes: number): number {
  let bytes = 0;
  let index = 0;
  while (index < text.length) {
    const code = text.codePointAt(index) as number;
    bytes += jsonBytes(code);
    if (bytes > maxBytes) return index;
    index += code > 0xffff ? 2 : 1;
  }
  return index;
}

const SHORT_ESCAPES = '\b\t\n\f\r"\\';

function jsonBytes(code: number): number {
  if (code < 0x80) {
    if (code >= 0x20 && code !== 0x22 && code !== 0x5c) return 1;
    return SHORT_ESCAPES.includes(String.fromCharCode(code)) ? 2 : 6;
  }
  if (code < 0x800) return 2;
  // A lone surrogate is written as an escape.
  if (code >= 0xd800 && code <= 0xdfff) return 6;
  return code > 0xffff ? 4 : 3;
}
