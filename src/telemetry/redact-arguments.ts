import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';

const MAX_KEYS = 32;
const MAX_KEY_CHARS = 64;

/** The shape of a call's arguments: which keys there are and how large each value is. Enough to see what was tried. */
export function redactArguments(value: JsonValue | undefined): JsonObject | null {
  if (!isJsonObject(value)) return null;
  const entries = Object.entries(value).slice(0, MAX_KEYS);
  return Object.fromEntries(entries.map(([key, item]) => [key.slice(0, MAX_KEY_CHARS), shape(item)]));
}

function shape(value: JsonValue): string {
  if (typeof value === 'string') return `string(${value.length})`;
  if (Array.isArray(value)) return `array(${value.length})`;
  if (isJsonObject(value)) return `object(${Object.keys(value).length})`;
  return value === null ? 'null' : typeof value;
}
