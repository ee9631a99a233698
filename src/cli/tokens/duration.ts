import { UsageError } from '../usage-error.ts';

const SECOND_MS = 1_000;
const unitMs: Readonly<Record<string, number>> = {
  s: SECOND_MS,
  m: 60 * SECOND_MS,
  h: 3_600 * SECOND_MS,
  d: 86_400 * SECOND_MS,
};
const MAX_DIGITS = 6;
const shape = new RegExp(`^(\\d{1,${MAX_DIGITS}})([smhd])$`);

/** `90d`, `12h`, `30m`, `0s` in milliseconds. */
export function durationMs(flag: string, text: string): number {
  const [, digits = '', unit = ''] = shape.exec(text) ?? [];
  const size = unitMs[unit];
  if (size === undefined) throw new UsageError(`--${flag}: expected a time like 90d, 12h, 30m or 0s, found "${text}"`);
  return Number(digits) * size;
}
