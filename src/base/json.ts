export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Parses a JSON text; undefined: not JSON. Drops the parser's error, because it quotes the text. */
export function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/**
 * Compact JSON with the keys of every object in the order of their UTF-8 bytes. `JSON.stringify` of a sorted copy
 * would not keep that order: JavaScript moves integer-like keys to the front.
 */
export function canonicalJson(value: JsonValue): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  let text = '';
  if (Array.isArray(value)) {
    for (const item of value) text += (text === '' ? '[' : ',') + canonicalJson(item);
    return text === '' ? '[]' : `${text}]`;
  }
  for (const key of sorted(Object.keys(value))) {
    text += `${text === '' ? '{' : ','}${JSON.stringify(key)}:${canonicalJson(value[key] as JsonValue)}`;
  }
  return text === '' ? '{}' : `${text}}`;
}

/** Up to this many keys use insertion sort: for small objects `Array.sort` costs more than writing their text. */
const FEW_KEYS = 16;

function sorted(keys: string[]): string[] {
  if (keys.length > FEW_KEYS) return keys.sort(byCodePoint);
  for (let at = 1; at < keys.length; at++) {
    const key = keys[at] as string;
    let place = at;
    for (; place > 0 && byCodePoint(keys[place - 1] as string, key) > 0; place--)
      keys[place] = keys[place - 1] as string;
    keys[place] = key;
  }
  return keys;
}

// UTF-16 order differs from UTF-8 order only where one side has a surrogate: those sort above every other unit.
function byCodePoint(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x2000 : unit >= 0xe000 ? unit - 0x800 : unit;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Offset at which a JSON text is nested deeper than `maxDepth` levels; null: it is not. Checks the text before it is
 * parsed, because recursion over a deeply nested value overflows the stack.
 */
export function tooDeepAt(text: string, maxDepth: number): number | null {
  if (text.length <= maxDepth) return null;
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (inString) {
      if (unit === BACKSLASH) at++;
      else if (unit === QUOTE) inString = false;
    } else if (unit === QUOTE) inString = true;
    else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      if (++depth > maxDepth) return at;
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) depth--;
  }
  return null;
}
