export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value of a JSON text; undefined when it is not JSON. The parser's error is dropped: it quotes the text. */
export function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/**
 * Compact JSON with the keys of every object in the order of their UTF-8 bytes. `JSON.stringify` cannot do it even
 * over a sorted copy: JavaScript moves integer-like keys to the front.
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

/** So many keys are sorted by hand: most objects have few, and a sort of the engine costs more than all their text. */
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
