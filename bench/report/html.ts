import type { Row } from '../measure/row.ts';
import type { TopicEntry } from '../topics/all.ts';
import type { Environment } from './environment.ts';
import { figure, interval, verdict, withUnit } from './figures.ts';
import { style } from './html-style.ts';

const BAR_WIDTH = 260;
const BAR_HEIGHT = 18;

/** The report as one page without anything from elsewhere. */
export function htmlReport(machine: Environment, topics: readonly TopicEntry[], rows: readonly Row[]): string {
  const measured = topics.filter(({ name }) => rows.some(({ topic }) => topic === name));
  const sections = measured
    .map((topic) =>
      section(
        topic,
        rows.filter((row) => row.topic === topic.name),
      ),
    )
    .join('\n');
  const facts = Object.entries(machine).map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Spear bench, ${escaped(machine.date)}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>Spear bench</h1>
<p>Every figure is compared with a yardstick of the same run. A bar is the ratio of the two, the whisker its 95 % confidence
interval, the line across it the goal. Bars of a topic have one scale.</p>
<dl>${facts.join('')}</dl>
${sections}
</main>
</body>
</html>
`;
}

function section({ name, title }: TopicEntry, rows: readonly Row[]): string {
  const largest = Math.max(...rows.map(({ ratioHigh, ratio }) => ratioHigh ?? ratio ?? 0), ...rows.map(goalRatio), 1);
  const notes = rows
    .filter(({ note }) => note !== '')
    .map((row) => `<li>${escaped(row.name)}: ${escaped(row.note)}</li>`);
  const head = ['', 'median', 'p99', 'yardstick', 'ratio', 'spread', 'goal', ''];
  return `<section aria-labelledby="${name}">
<h2 id="${name}">${escaped(name)}</h2>
<p>${escaped(title)}</p>
<div class="wide"><table>
<thead><tr>${head.map((text) => `<th scope="col">${text}</th>`).join('')}</tr></thead>
<tbody>
${rows.map((row) => tableRow(row, largest)).join('\n')}
</tbody>
</table></div>
${notes.length > 0 ? `<ul>${notes.join('')}</ul>` : ''}
</section>`;
}

function tableRow(row: Row, largest: number): string {
  const { sign, word } = verdict(row);
  const cells = [
    withUnit(row.median, row.unit),
    withUnit(row.p99, row.unit),
    `${withUnit(row.yardstick, row.unit)}<br><small>${escaped(row.yardstickName)}</small>`,
    figure(row.ratio),
  ];
  const numbers = cells.map((cell) => `<td class="number">${cell}</td>`).join('');
  const mark = `<td class="${word.replace(' ', '-')}"><span aria-hidden="true">${sign}</span> ${word}</td>`;
  return `<tr><th scope="row">${escaped(row.name)}</th>${numbers}<td>${bar(row, largest)}</td><td>${escaped(row.goal ?? '')}</td>${mark}</tr>`;
}

/** The number that a goal on the ratio names; 0 for goals on something else. */
function goalRatio({ goal }: Row): number {
  return goal?.startsWith('ratio') ? Number(goal.split(' ').at(-1)) : 0;
}

function bar(row: Row, largest: number): string {
  if (row.ratio === null || row.ratioLow === null || row.ratioHigh === null) return '';
  const at = (ratio: number) => ((ratio / largest) * BAR_WIDTH).toFixed(1);
  const [low, high, middle] = [at(row.ratioLow), at(row.ratioHigh), BAR_HEIGHT / 2];
  const limit = goalRatio(row);
  const line = limit > 0 ? `<line class="goal" x1="${at(limit)}" x2="${at(limit)}" y1="0" y2="${BAR_HEIGHT}"/>` : '';
  const label = `ratio ${figure(row.ratio)}, 95 % interval ${interval(row)}`;
  return (
    `<svg role="img" aria-label="${escaped(label)}" viewBox="0 0 ${BAR_WIDTH} ${BAR_HEIGHT}" width="${BAR_WIDTH}" height="${BAR_HEIGHT}">` +
    `<rect class="${row.ok === false ? 'bar missed' : 'bar'}" x="0" y="3" width="${at(row.ratio)}" height="${BAR_HEIGHT - 6}"/>` +
    `<path class="whisker" d="M${low} ${middle}H${high}M${low} 5V${BAR_HEIGHT - 5}M${high} 5V${BAR_HEIGHT - 5}"/>${line}</svg>`
  );
}

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escaped = (value: string | number): string =>
  String(value).replaceAll(/[&<>"]/g, (character) => escapes[character] as string);
