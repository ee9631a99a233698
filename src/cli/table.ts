import { visible } from '../base/visible-text.ts';

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

const SECOND = 1_000;
const units: readonly (readonly [suffix: string, ms: number])[] = [
  ['d', 86_400 * SECOND],
  ['h', 3_600 * SECOND],
  ['m', 60 * SECOND],
  ['s', SECOND],
];

/** `3s`, `12m`, `4d`. */
export function age(ms: number): string {
  const [suffix, unit] = units.find(([, size]) => ms >= size) ?? ['s', SECOND];
  return `${Math.floor(ms / unit)}${suffix}`;
}
