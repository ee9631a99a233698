import { parseArgs } from 'node:util';
import { topics } from './topics/all.ts';

export interface BenchFlags {
  readonly help: boolean;
  readonly quick: boolean;
  readonly json: string | null;
  readonly html: string | null;
  /** Names, in the order of the report; all of them if none was given. */
  readonly topics: readonly string[];
}

/** Something on the command line that cannot be meant. */
export class FlagError extends Error {}

const width = Math.max(...topics.map(({ name }) => name.length)) + 2;
const listed = topics.map(({ name, title }) => `  ${name.padEnd(width)}${title}`).join('\n');

export const usage = `Usage: npm run bench -- [options] [topic...]

Measures the overhead of Spear; each figure is compared with a yardstick of the same run.

  --quick       a rough measurement in under a minute; a full run takes up to ten
  --json FILE   also writes the figures to FILE, an array of
                {topic, name, unit, median, p99, yardstick, ratio, goal, ok, …}
  --html FILE   also writes a page with bars and their spread to FILE
  --help        this text

SPEAR_BENCH_PARKED=N  number of parked runs in topic node; default 1,000,000 (--quick: 10,000)

Topics (all if none is named):
${listed}

To check for regressions: npm run bench:check`;

export function parseFlags(args: readonly string[]): BenchFlags {
  const { values, positionals } = parse(args);
  const unknown = positionals.find((name) => !topics.some((topic) => topic.name === name));
  if (unknown !== undefined) {
    const known = topics.map(({ name }) => name).join(', ');
    throw new FlagError(`unknown topic "${unknown}"; known topics: ${known}`);
  }
  const chosen = topics
    .map(({ name }) => name)
    .filter((name) => positionals.length === 0 || positionals.includes(name));
  return {
    help: values.help ?? false,
    quick: values.quick ?? false,
    json: values.json ?? null,
    html: values.html ?? null,
    topics: chosen,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        quick: { type: 'boolean' },
        json: { type: 'string' },
        html: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new FlagError(`${(error as Error).message} (npm run bench -- --help lists the options)`);
  }
}
