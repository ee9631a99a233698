/** The first `maxUnits` UTF-16 units of a text, or one less where they would end inside a character. */
export function startOf(text: string, maxUnits: number): string {
  if (text.length <= maxUnits) return text;
  const last = text.charCodeAt(maxUnits - 1);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, isHalf ? maxUnits - 1 : maxUnits);
}

/** {@link startOf}, with an ellipsis if the text was cut. */
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

/** Escapes characters that would move a terminal's cursor, reorder letters or be invisible. */
export function visible(text: string): string {
  return text.replaceAll(unseen, (character) => {
    if (character === '\n') return '\\n';
    if (character === '\t') return '\\t';
    return `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
  });
}

// Controls, formats (bidi, zero width), lone surrogates, private and unassigned characters, separators except the space, blank letters.
const unseen =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Me}\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}]|(?! )\p{Zs}/gu;

/** {@link visible} for each line of a text. */
export function visibleLines(text: string): string {
  return text.split('\n').map(visible).join('\n');
}

/** JSON text of the same value without invisible characters. Precondition: no white space between tokens. */
export function visibleJson(json: string): string {
  return json.replaceAll(unseen, (character) =>
    [...Array(character.length).keys()]
      .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

const controlCharacter = /\p{Cc}/u;

/** Whether a text has a control character, such as NUL or a line feed. */
export function hasControlCharacter(text: string): boolean {
  return controlCharacter.test(text);
}

/** Describes why a text is not a valid single line, without quoting it; null: valid. */
export function textProblem(text: string, maxChars: number): string | null {
  if (text === '') return 'must not be empty';
  if (text.length > maxChars) return `has ${text.length} characters, at most ${maxChars} are allowed`;
  if (hasControlCharacter(text)) return 'must not contain control characters';
  return text.isWellFormed() ? null : 'is not valid Unicode';
}

/** Splits at the first separator, as in `NAME=VALUE`; `after` is null if there is no separator. */
export function splitOnce(text: string, separator: string): [before: string, after: string | null] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + separator.length)];
}

const name = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const value = /^[\t\x20-\x7e\x80-\xff]*$/;

export function isHeaderName(text: string): boolean {
  return name.test(text);
}

/** Whether a text is Latin-1 without control characters other than tab. */
export function isHeaderValue(text: string): boolean {
  return value.test(text);
}
