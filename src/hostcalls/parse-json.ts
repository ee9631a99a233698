import { type JsonValue, parseJson } from '../base/json.ts';

/** Nesting that nothing real has; beyond it the stack of whoever walks the value would be at risk. */
export const MAX_JSON_DEPTH = 256;

/** JSON that a guest wrote: `undefined` if it is none, or is nested too deeply. */
export function parseGuestJson(text: string): JsonValue | undefined {
  return isTooDeep(text) ? undefined : parseJson(text);
}

/** Looks before parsing: walking a value that is nested too deeply is what must not happen. */
function isTooDeep(text: string): boolean {
  if (text.length <= MAX_JSON_DEPTH) return false;
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (inString) {
      if (unit === BACKSLASH) at++;
      else if (unit === QUOTE) inString = false;
    } else if (unit === QUOTE) inString = true;
    else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) {
      if (++depth > MAX_JSON_DEPTH) return true;
    } else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) depth--;
  }
  return false;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
