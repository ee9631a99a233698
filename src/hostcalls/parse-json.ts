import type { JsonValue } from '../protocol/json.ts';

/** JSON that a guest wrote: `undefined` if it is none. */
export function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
