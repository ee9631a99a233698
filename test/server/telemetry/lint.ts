import type { Family } from './exposition.ts';

/** Units that Prometheus wants written out, and times that it wants in seconds. */
const abbreviated = new Set(['s', 'ms', 'us', 'ns', 'sec', 'b', 'kb', 'mb', 'gb', 'tb', 'pb', 'm', 'h', 'd']);
const notBase = /(?:^|_)(?:milli|micro|nano|kilo|mega|giga|kibi|mebi|gibi)?(?:seconds|bytes|minutes|hours|days)(?:_|$)/;
const base = /(?:^|_)(?:seconds|bytes)(?:_|$)/;

/** What `promtool check metrics` would complain about, metric by metric. */
export function lint(families: Iterable<Family>): string[] {
  return [...families].flatMap((family) => complaints(family).map((complaint) => `${family.name}: ${complaint}`));
}

function complaints({ name, type, help, samples }: Family): string[] {
  const labels = samples.flatMap((sample) => Object.keys(sample.labels));
  const sets = new Set(
    samples.filter((sample) => sample.name === name).map((sample) => Object.keys(sample.labels).sort().join()),
  );
  return [
    [help.trim() === '', 'no help text'],
    [type === 'counter' && !name.endsWith('_total'), 'counter metrics should have "_total" suffix'],
    [type !== 'counter' && name.endsWith('_total'), 'non-counter metrics should not have "_total" suffix'],
    [type !== 'histogram' && /_(?:count|sum|bucket)$/.test(name), 'a suffix of histograms'],
    [type !== 'histogram' && labels.includes('le'), 'non-histogram metrics should not have "le" label'],
    [labels.includes('quantile'), 'non-summary metrics should not have "quantile" label'],
    [name.split('_').includes(type), `metric name should not include type '${type}'`],
    [name.split('_').some((part) => abbreviated.has(part)), 'metric names should not contain abbreviated units'],
    [notBase.test(name) && !base.test(name), 'use base units'],
    [/[A-Z]/.test(name) || labels.some((label) => /[A-Z]/.test(label)), 'names should be written in snake_case'],
    [name.includes(':'), 'metric names should not contain ":"'],
    [sets.size > 1, 'the samples of one metric have different labels'],
  ].flatMap(([applies, text]) => (applies === true ? [String(text)] : []));
}
