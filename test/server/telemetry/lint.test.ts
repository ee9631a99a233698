import { expect, it } from 'vitest';
import { parseExposition } from './exposition.ts';

const scrape = (name: string, type: string, samples: readonly string[] = [`${name} 1`]) =>
  `# HELP ${name} Some text.\n# TYPE ${name} ${type}\n${samples.join('\n')}\n`;

it.each([
  ['a counter without its suffix', scrape('a_things', 'counter'), /"_total" suffix/],
  ['a gauge that is called a total', scrape('a_total', 'gauge'), /non-counter/],
  ['an abbreviated unit', scrape('a_latency_ms', 'gauge'), /abbreviated/],
  ['a unit that is not a base unit', scrape('a_latency_milliseconds', 'gauge'), /base units/],
  ['a type in a name', scrape('a_gauge_of_it', 'gauge'), /type 'gauge'/],
  ['capital letters', scrape('a_Thing', 'gauge'), /snake_case/],
  ['different labels', scrape('a_total', 'counter', ['a_total{x="1"} 1', 'a_total{y="1"} 1']), /different labels/],
])('rejects %s, like promtool', (_, text, complaint) => {
  expect(() => parseExposition(text)).toThrow(complaint);
});

it('accepts a valid exposition', () => {
  expect(parseExposition(scrape('a_latency_seconds', 'gauge')).size).toBe(1);
  expect(parseExposition(scrape('a_total', 'counter', ['a_total{x="1"} 1', 'a_total{x="2"} 1'])).size).toBe(1);
});
