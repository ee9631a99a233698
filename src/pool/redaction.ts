export type Redact = (text: string) => string;

const MARK = '[redacted]';
/** Shorter values ("1", "on") are no secrets, and taking them out would garble every message. */
const MIN_SECRET_CHARS = 4;

/**
 * Takes the given values out of any text, also in the forms they have inside a URL or a JSON string, and line by line
 * for values of several lines, because a log is cut into lines.
 */
export function createRedactor(secrets: Iterable<string>): Redact {
  const forms = new Set<string>();
  for (const secret of secrets) {
    for (const part of [secret, secret.trim(), ...secret.split(/\r?\n/)]) {
      if (part.length < MIN_SECRET_CHARS) continue;
      forms.add(part);
      forms.add(JSON.stringify(part).slice(1, -1));
      forms.add(encodeForUrl(part));
    }
  }
  if (forms.size === 0) return (text) => text;
  // Longest first, so that a secret that contains another one leaves nothing of itself behind.
  const ordered = [...forms].sort((a, b) => b.length - a.length);
  return (text) => ordered.reduce((clean, form) => clean.replaceAll(form, MARK), text);
}

// A lone surrogate cannot be encoded; such a value has no form in a URL.
function encodeForUrl(text: string): string {
  return text.isWellFormed() ? encodeURIComponent(text) : text;
}
