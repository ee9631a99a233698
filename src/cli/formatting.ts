import { visible } from '../base/text.ts';
import { processEnvironment } from '../config/process-environment.ts';

const GAP = '  ';

/** Columns as wide as their widest cell. Control characters are replaced. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  const lines = all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

/** One `name: value` line per field that is not null. */
export function fieldsText(value: object): string {
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  const text = (field: unknown) => printable(typeof field === 'string' ? field : JSON.stringify(field));
  return fields.map(([name, field]) => `${name}: ${text(field)}\n`).join('');
}

export function printable(text: string): string {
  return visible(text.replaceAll(/\p{Cc}/gu, ' '));
}

const units = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000 } as const;

/** `3s`, `12m`, `4d`. */
export function age(ms: number): string {
  const [suffix, unit] = Object.entries(units).find(([, size]) => ms >= size) ?? ['s', units.s];
  return `${Math.floor(ms / unit)}${suffix}`;
}

/** `90d`, `12h`, `30m`, `0s` in milliseconds; null: not a duration. */
export function durationOf(text: string): number | null {
  const [, digits = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  return digits === '' ? null : Number(digits) * units[unit as keyof typeof units];
}

const codes = { dim: 2, bold: 1, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Colour = keyof typeof codes;
export type Paint = (colour: Colour, text: string) => string;

const plain: Paint = (_, text) => text;
const painted: Paint = (colour, text) => (text === '' ? '' : `\u001b[${codes[colour]}m${text}\u001b[0m`);

export const paintFor = (colours: boolean): Paint => (colours ? painted : plain);

/** Whether stdout is a terminal that shows colours. */
export const wantsColours = (): boolean =>
  process.stdout.isTTY === true && !processEnvironment.NO_COLOR && processEnvironment.TERM !== 'dumb';
