/** A table with its columns aligned, so that the page reads in a terminal as well. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => [...(row[column] ?? '')].length), 3));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => pad(cell, widths[column] ?? 0)).join(' | ')} |`;
  const [first = [], ...rest] = cells;
  return [line(first), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rest.map(line)].join('\n');
}

function pad(cell: string, width: number): string {
  return cell + ' '.repeat(width - [...cell].length);
}

export const code = (text: string): string => `\`${text}\``;

/** 65536 → 64 KiB, 1800000 → 1,800,000: what a person can compare. */
export function amount(name: string, value: number): string {
  if (name.includes('bytes') && value > 0) {
    for (const [unit, size] of units) if (value % size === 0) return `${value / size} ${unit}`;
  }
  return value.toLocaleString('en-US');
}

const units = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
] as const;

/** Replaces what stands between `<!-- name -->` and `<!-- /name -->`. */
export function fill(page: string, name: string, content: string): string {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [start, end] = [page.indexOf(open), page.indexOf(close)];
  if (start < 0 || end < start) throw new Error(`the page has no ${open} … ${close}`);
  return `${page.slice(0, start + open.length)}\n\n${content}\n\n${page.slice(end)}`;
}
