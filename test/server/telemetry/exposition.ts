import { lint } from './lint.ts';

/** One sample of a scrape. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: Sample[];
}

const types = new Set(['counter', 'gauge', 'histogram']);
const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const labelPair = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/;
const numeral = /^(?:[+-]?Inf|NaN|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/;

/** Reads the text format 0.0.4 and accepts nothing that a strict reader would have to guess at, or promtool minds. */
export function parseExposition(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line must end with a line feed');
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  let help: { name: string; text: string } | null = null;
  let current: Family | null = null;
  for (const line of text.slice(0, -1).split('\n')) {
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line);
    if (comment) {
      const [, kind, name = '', rest = ''] = comment;
      if (families.has(name)) throw new Error(`${name} is described twice`);
      if (kind === 'HELP') help = { name, text: rest };
      else {
        if (help?.name !== name) throw new Error(`TYPE of ${name} does not follow its HELP`);
        if (!types.has(rest)) throw new Error(`${name} has the type ${rest}`);
        current = { name, type: rest, help: help.text, samples: [] };
        families.set(name, current);
      }
      continue;
    }
    const sample = parseSample(line);
    if (current === null || familyOf(sample.name, current) !== current.name) {
      throw new Error(`${sample.name} stands outside its family`);
    }
    const identity = JSON.stringify([sample.name, Object.entries(sample.labels).sort()]);
    if (seen.has(identity)) throw new Error(`twice: ${line}`);
    seen.add(identity);
    current.samples.push(sample);
  }
  for (const family of families.values()) {
    if (family.type === 'counter' && family.samples.some(({ value }) => !(value >= 0))) throw new Error(family.name);
    if (family.type === 'histogram') checkHistogram(family);
  }
  const complaints = lint(families.values());
  if (complaints.length > 0) throw new Error(complaints.join('\n'));
  return families;
}

function parseSample(line: string): Sample {
  const [, name, labelText, value = ''] = sampleLine.exec(line) ?? [];
  if (name === undefined || !numeral.test(value)) throw new Error(`not a sample: ${JSON.stringify(line)}`);
  const labels: Record<string, string> = {};
  for (let rest = labelText ?? ''; rest !== ''; ) {
    const [pair, key, raw] = labelPair.exec(rest) ?? [];
    if (pair === undefined || key === undefined || raw === undefined) throw new Error(`bad labels: ${line}`);
    if (Object.hasOwn(labels, key)) throw new Error(`label ${key} twice: ${line}`);
    labels[key] = raw.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
    rest = rest.slice(pair.length);
  }
  return { name, labels, value: Number(value.replace('Inf', 'Infinity')) };
}

function familyOf(name: string, { type, name: family }: Family): string {
  return type === 'histogram' && /_(?:bucket|sum|count)$/.test(name)
    ? name.replace(/_(?:bucket|sum|count)$/, '')
    : name === family
      ? family
      : '';
}

function checkHistogram({ name, samples }: Family): void {
  const groups = new Map<string, { buckets: [number, number][]; count?: number; sum?: number }>();
  for (const sample of samples) {
    const { le, ...rest } = sample.labels;
    const key = JSON.stringify(Object.entries(rest).sort());
    const group = groups.get(key) ?? { buckets: [] };
    groups.set(key, group);
    if (sample.name === `${name}_bucket`) group.buckets.push([Number(le?.replace('Inf', 'Infinity')), sample.value]);
    else if (sample.name === `${name}_count`) group.count = sample.value;
    else group.sum = sample.value;
  }
  for (const { buckets, count, sum } of groups.values()) {
    const rising = buckets.every(
      ([bound, value], index) =>
        index === 0 || (bound > (buckets[index - 1]?.[0] ?? 0) && value >= (buckets[index - 1]?.[1] ?? 0)),
    );
    const last = buckets.at(-1);
    if (!rising || last?.[0] !== Number.POSITIVE_INFINITY || last[1] !== count || sum === undefined) {
      throw new Error(`${name} is not a histogram: ${JSON.stringify(buckets)} ${count} ${sum}`);
    }
  }
}

/** The value of the one sample that has at least these labels; undefined: there is none. */
export function sampleValue(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const family = families.get(name) ?? families.get(name.replace(/_(?:bucket|sum|count)$/, ''));
  const found = (family?.samples ?? []).filter(
    (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  if (found.length > 1) throw new Error(`${found.length} samples of ${name} have ${JSON.stringify(labels)}`);
  return found[0]?.value;
}
