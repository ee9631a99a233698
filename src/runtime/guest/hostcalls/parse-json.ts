import { type JsonValue, parseJson } from '../../../base/json.ts';
import { tooDeepAt } from '../../../base/json-depth.ts';

/** Nesting that nothing real has; beyond it the stack of whoever walks the value would be at risk. */
export const MAX_JSON_DEPTH = 256;

/** JSON that a guest wrote: `undefined` if it is none, or is nested too deeply. */
export function parseGuestJson(text: string): JsonValue | undefined {
  return tooDeepAt(text, MAX_JSON_DEPTH) === null ? parseJson(text) : undefined;
}
