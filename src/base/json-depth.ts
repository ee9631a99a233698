const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Where a JSON text begins to be nested deeper than `maxDepth` levels; null: nowhere. Looks before anybody parses:
 * walking such a value is what must not happen.
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
