import type { Row } from '../measure/row.ts';
import type { Environment } from './environment.ts';
import { figure, interval, verdict, withUnit } from './figures.ts';

export function environmentLines(machine: Environment): string {
  const { node, v8, platform, cpu, cores, memoryGiB, load, effort, date } = machine;
  return [
    `${date}, ${effort} run`,
    `Node ${node} (V8 ${v8}), ${platform}`,
    `${cpu}, ${cores} cores, ${memoryGiB} GiB, load ${load}`,
  ].join('\n');
}

const headings = ['', '', 'median', 'p99', 'yardstick', 'ratio', '95 %', 'goal', 'beside'];
const alignRight = [false, false, true, true, true, true, false, false, false];

/** One topic as a table, and its notes below it. */
export function topicTable(name: string, title: string, rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    verdict(row).sign,
    row.name,
    withUnit(row.median, row.unit),
    withUnit(row.p99, row.unit),
    withUnit(row.yardstick, row.unit),
    figure(row.ratio),
    interval(row),
    row.goal ?? '',
    row.yardstickName,
  ]);
  const widths = headings.map((heading, at) =>
    Math.max(heading.length, ...cells.map((line) => (line[at] as string).length)),
  );
  const line = (texts: readonly string[]) =>
    texts
      .map((text, at) => (alignRight[at] ? text.padStart(widths[at] as number) : text.padEnd(widths[at] as number)))
      .join('  ')
      .trimEnd();
  const notes = rows.filter(({ note }) => note !== '').map((row) => `  ${row.name}: ${row.note}`);
  return [`\n${name}: ${title}`, line(headings), ...cells.map(line), ...notes].join('\n');
}

export function summary(rows: readonly Row[], seconds: number): string {
  const count = (word: string) => rows.filter((row) => verdict(row).word === word).length;
  const missed = rows.filter(({ ok }) => ok === false).map(({ topic, name }) => `${topic}: ${name}`);
  const total = `${rows.length} figures in ${seconds.toFixed(0)} s: ${count('met')} goals met, ${count('missed')} missed, ${count('published')} published, ${count('not measured')} not measured`;
  return ['', total, ...missed.map((name) => `  ✗ ${name}`)].join('\n');
}
