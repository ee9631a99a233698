import { isJsonObject, type JsonValue } from '../../base/json.ts';

/*
 * A journal proves that nobody changed it, not that a Spear wrote it: whoever shows one takes every field for what it
 * is, and not for what it should be.
 */

export const textIn = (value: JsonValue | undefined): string => (typeof value === 'string' ? value : '');

export const textOrNull = (value: JsonValue | undefined): string | null => (typeof value === 'string' ? value : null);

export const countIn = (value: JsonValue | undefined): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;

export const base64In = (value: JsonValue | undefined): Buffer => Buffer.from(textIn(value), 'base64');

/** `{"$bytes": base64}`, as replies have them. */
export const bytesIn = (value: JsonValue | undefined): Buffer =>
  base64In(isJsonObject(value) ? value.$bytes : undefined);
