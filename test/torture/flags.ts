import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { topics } from './topics/all.ts';

export interface TortureFlags {
  readonly help: boolean;
  readonly short: boolean;
  readonly seed: number;
  /** For each topic; a topic ends when its figure is reached, or its time is up. */
  readonly minutes: number;
  readonly markdown: string | null;
  /** Names, in the order of the table; all of them if none was given. */
  readonly topics: readonly string[];
}

/** Something on the command line that cannot be meant. */
export class FlagError extends Error {}

const DEFAULT_MINUTES = 15;
const MAX_SEED = 2 ** 32;
const width = Math.max(...topics.map(({ name }) => name.length)) + 2;
const listed = topics.map(({ name, title }) => `  ${name.padEnd(width)}${title}`).join('\n');

export const usage = `Usage: npm run torture -- [options] [topic...]

Attacks Spear with hostile guests, servers, networks, disks and clocks, and counts losses and crashes.

  --minutes N      stops each topic after N minutes, even if its figure is not reached; default ${DEFAULT_MINUTES}
  --seed S         the seed of an earlier run, to repeat it
  --short          a few seconds per topic, as in the tests
  --markdown FILE  also writes the table to FILE
  --help           this text

Topics (all if none is named):
${listed}

Exit code: 0 if every figure was reached, 1 if not, 2 for a usage error.`;

export function parseFlags(args: readonly string[]): TortureFlags {
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
    short: values.short ?? false,
    seed: values.seed === undefined ? randomInt(MAX_SEED) : wholeNumber('--seed', values.seed, 0, MAX_SEED - 1),
    minutes: values.minutes === undefined ? DEFAULT_MINUTES : wholeNumber('--minutes', values.minutes, 1, 24 * 60),
    markdown: values.markdown ?? null,
    topics: chosen,
  };
}

function wholeNumber(flag: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && text.trim() !== '' && value >= min && value <= max) return value;
  throw new FlagError(`${flag} takes a whole number from ${min} to ${max}, not "${text}"`);
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        short: { type: 'boolean' },
        seed: { type: 'string' },
        minutes: { type: 'string' },
        markdown: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new FlagError(`${(error as Error).message} (npm run torture -- --help lists the options)`);
  }
}
