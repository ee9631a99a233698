import { isJsonObject, type JsonValue } from '../protocol/json.ts';

export type Redact = (text: string) => string;

const MARK = '[redacted]';
/** Shorter values ("1", "on") are no secrets, and taking them out would garble every message. */
const MIN_SECRET_CHARS = 4;
/** In what a tool answers, a value of fewer characters ("text", "8080") is more likely to be a word of the answer. */
export const MIN_CONTENT_SECRET_CHARS = 8;

const asItIs: Redact = (text) => text;

/**
 * Takes the given values out of any text, also in the forms they have inside a URL or a JSON string, and line by line
 * for values of several lines, because a log is cut into lines.
 */
export function createRedactor(secrets: Iterable<string>, minChars = MIN_SECRET_CHARS): Redact {
  const forms = new Set<string>();
  for (const secret of secrets) {
    for (const part of [secret, secret.trim(), ...secret.split(/\r?\n/)]) {
      if (part.length < minChars) continue;
      forms.add(part);
      forms.add(JSON.stringify(part).slice(1, -1));
      forms.add(encodeForUrl(part));
    }
  }
  if (forms.size === 0) return asItIs;
  // Longest first, so that a secret that contains another one leaves nothing of itself behind.
  const ordered = [...forms].sort((a, b) => b.length - a.length);
  return (text) => ordered.reduce((clean, form) => clean.replaceAll(form, MARK), text);
}

/** The same for every string inside a value, whatever its depth. What is not a string keeps its shape. */
export function redactStrings<Value extends JsonValue | undefined>(value: Value, redact: Redact): Value {
  if (redact === asItIs) return value;
  const clean = (item: JsonValue): JsonValue => {
    if (typeof item === 'string') return redact(item);
    if (Array.isArray(item)) return item.map(clean);
    if (!isJsonObject(item)) return item;
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [key, clean(inner)]));
  };
  return (value === undefined ? value : clean(value)) as Value;
}

// A lone surrogate cannot be encoded; such a value has no form in a URL.
function encodeForUrl(text: string): string {
  return text.isWellFormed() ? encodeURIComponent(text) : text;
}
