import { nearestKey } from './nearest-key.ts';

const MAX_KEY_CHARS_SHOWN = 60;

/** Words about the first key that is none of the valid ones; null: all are. */
export function unknownKey(given: object, valid: readonly string[]): string | null {
  const key = Object.keys(given).find((name) => !valid.includes(name));
  if (key === undefined) return null;
  const nearest = nearestKey(key, valid);
  const hint = nearest === undefined ? '' : `, did you mean ${JSON.stringify(nearest)}?`;
  return `unknown key ${JSON.stringify(key.slice(0, MAX_KEY_CHARS_SHOWN))}${hint} (valid: ${valid.join(', ')})`;
}
