import { wholeNumber } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';

export const eachOptions = {
  each: { type: 'string' },
  results: { type: 'string' },
  parallel: { type: 'string' },
  'skip-done': { type: 'boolean' },
} as const;

/** One guest for each line of a file. */
export interface EachFlags {
  readonly inputs: string;
  readonly results: string;
  readonly parallel: number;
  /** Whether inputs that have a good result already are left alone. */
  readonly skipDone: boolean;
}

const DEFAULT_PARALLEL = 8;
const MAX_PARALLEL = 10_000;

interface EachValues {
  readonly each?: string | undefined;
  readonly results?: string | undefined;
  readonly parallel?: string | undefined;
  readonly 'skip-done'?: boolean | undefined;
}

/** Flags that are about one guest. */
const ofOne = ['journal', 'resume', 'stream', 'json', 'follow', 'dry-run'] as const;

/** Null: one guest, as ever. @throws UsageError */
export function parseEachFlags(
  values: EachValues & Readonly<Partial<Record<(typeof ofOne)[number], unknown>>>,
): EachFlags | null {
  const { each: inputs, results } = values;
  if (inputs === undefined) {
    const alone = (['results', 'parallel', 'skip-done'] as const).find((name) => values[name] !== undefined);
    if (alone !== undefined) throw new UsageError(`--${alone} belongs to --each FILE`);
    return null;
  }
  if (results === undefined) throw new UsageError('--each needs --results FILE: where the results go, a line each');
  const other = ofOne.find((name) => values[name] !== undefined);
  if (other !== undefined) throw new UsageError(`--${other} is about one guest, and --each runs many`);
  const parallel = wholeNumber('parallel', values.parallel, { min: 1, max: MAX_PARALLEL }) ?? DEFAULT_PARALLEL;
  return { inputs, results, parallel, skipDone: values['skip-done'] ?? false };
}
