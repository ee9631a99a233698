import { cutText } from './cut-text.ts';
import { didYouMean } from './nearest-key.ts';

const MAX_KEY_CHARS_SHOWN = 60;

/** Words about the first key that is none of the valid ones; null: all are. */
export function unknownKey(given: object, valid: readonly string[]): string | null {
  const key = Object.keys(given).find((name) => !valid.includes(name));
  if (key === undefined) return null;
  const hint = didYouMean(key, valid);
  const shown = JSON.stringify(cutText(key, MAX_KEY_CHARS_SHOWN));
  return `unknown key ${shown}${hint === undefined ? '' : `, ${hint}`} (valid: ${valid.join(', ')})`;
}
