import type { Secret } from '../../config/secret.ts';

const REDACTED = '[redacted]';
/** Shorter values are words like `none`, given where a server wants some key: hiding them would garble every message. */
const MIN_SECRET_CHARACTERS = 5;

export type Redact = (text: string) => string;

/** Takes the secrets out of a text, also in the spellings that an echo of a request may have. */
export function redactor(secrets: readonly Secret[]): Redact {
  const spellings = new Set<string>();
  for (const secret of secrets) {
    const value = secret.reveal();
    if (value.length < MIN_SECRET_CHARACTERS) continue;
    spellings.add(value);
    spellings.add(JSON.stringify(value).slice(1, -1));
    spellings.add(encodeURIComponent(value.toWellFormed()));
    spellings.add(Buffer.from(value).toString('base64'));
  }
  // Longest first: one secret may be part of another.
  const longestFirst = [...spellings].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((clean, spelling) => clean.replaceAll(spelling, REDACTED), text);
}
