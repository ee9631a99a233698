import type { Row, Unit } from '../measure/row.ts';

const SIGNIFICANT = 3;

/** Three digits that matter, without an exponent. */
export function figure(value: number | null): string {
  if (value === null) return '–';
  const digits = Math.max(0, SIGNIFICANT - 1 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toFixed(Math.min(digits, Math.abs(value) < 1 ? SIGNIFICANT : SIGNIFICANT - 1));
}

export const withUnit = (value: number | null, unit: Unit): string =>
  value === null ? '–' : `${figure(value)} ${unit}`;

export const interval = ({ ratioLow, ratioHigh }: Row): string =>
  ratioLow === null ? '' : `[${figure(ratioLow)} … ${figure(ratioHigh)}]`;

/** Whether the goal is met: in a sign, and in a word for who cannot see it. */
export function verdict({ goal, ok, median }: Row): { readonly sign: string; readonly word: string } {
  if (median === null) return { sign: '?', word: 'not measured' };
  if (goal === null || ok === null) return { sign: '·', word: 'published' };
  return ok ? { sign: '✓', word: 'met' } : { sign: '✗', word: 'missed' };
}
