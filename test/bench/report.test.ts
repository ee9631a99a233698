import { describe, expect, it } from 'vitest';
import { goal, notMeasured, type Row, rowFrom } from '../../bench/measure/row.ts';
import { environment } from '../../bench/report/environment.ts';
import { figure } from '../../bench/report/figures.ts';
import { htmlReport } from '../../bench/report/html.ts';
import { environmentLines, summary, topicTable } from '../../bench/report/table.ts';
import { topics } from '../../bench/topics/all.ts';

const text = { topic: 'async', unit: 'µs', yardstickName: 'a <bare> hop', goal: goal.ratioAtMost(1.2) } as const;
const rows: Row[] = [
  rowFrom({ ...text, name: 'met' }, [11, 12, 13], [10, 11, 12]),
  rowFrom({ ...text, name: 'missed', cause: 'because "so"' }, [30, 31, 32], [10, 11, 12]),
  rowFrom({ ...text, name: 'published', goal: null }, [11, 12, 13], [10, 11, 12]),
  notMeasured({ ...text, name: 'unknown' }, 'there is no clock'),
];

describe('the table', () => {
  it('has a line for each figure, with a sign for its goal and its notes below', () => {
    const table = topicTable('async', 'a hop', rows).split('\n');
    const line = (name: string) => table.find((each) => each.includes(` ${name} `)) ?? '';
    expect(line('met')).toMatch(/^✓.* 12\.0 µs .* 11\.0 µs +1\.09 +\[.*\] +ratio ≤ 1\.2 +a <bare> hop$/);
    expect(line('missed')).toMatch(/^✗/);
    expect(line('published')).toMatch(/^·/);
    expect(line('unknown')).toMatch(/^\?/);
    expect(table).toContain('  missed: because "so"');
    expect(table).toContain('  unknown: not measured because there is no clock');
  });

  it('ends with what was missed', () => {
    expect(summary(rows, 12.3).split('\n')).toEqual([
      '',
      '4 figures in 12 s: 1 goals met, 1 missed, 1 published, 1 not measured',
      '  ✗ async: missed',
    ]);
  });

  it('begins with the machine', () => {
    const machine = environment('quick');
    const lines = environmentLines(machine);
    for (const fact of ['quick run', machine.node, machine.v8, machine.cpu, `${machine.cores} cores`, 'load']) {
      expect(lines).toContain(fact);
    }
  });

  it.each([
    [12_345, '12345'],
    [123.4, '123'],
    [12.34, '12.3'],
    [1.234, '1.23'],
    [0.0341, '0.034'],
    [0, '0.00'],
    [null, '–'],
  ])('writes %s as %s', (value, written) => {
    expect(figure(value)).toBe(written);
  });
});

describe('the page', () => {
  const page = htmlReport(environment('full'), topics, rows);

  it('stands for itself, in light and in dark', () => {
    expect(page).not.toMatch(/(?:src|href)=|@import|url\(/);
    expect(page).toContain('prefers-color-scheme: dark');
    expect(page).toContain('<html lang="en">');
  });

  it('has a bar with its spread for what was measured, readable without seeing it', () => {
    expect(page.match(/<svg role="img" aria-label="ratio [\d.]+, 95 % interval \[[\d.]+ … [\d.]+\]"/g)).toHaveLength(3);
    for (const word of ['met', 'missed', 'published', 'not measured']) expect(page).toContain(`</span> ${word}</td>`);
    expect(page).toContain('<th scope="row">missed</th>');
  });

  it('has only the topics that were measured, and no markup out of a name', () => {
    expect(page.match(/<h2 /g)).toHaveLength(1);
    expect(page).toContain('a &lt;bare&gt; hop');
    expect(page).toContain('because &quot;so&quot;');
    expect(page).not.toContain('<bare>');
  });
});
