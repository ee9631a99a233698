import { textProblem } from '../../base/text-problem.ts';

/** Sizes of a list of patterns in a record, a task or a session. */
export const patternLimits = { patterns: 512, patternChars: 256 } as const;

// Apart from pattern.ts, because the guest's thread checks lists and never matches a name.

export function isStringList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

export function patternProblem(pattern: string): string | null {
  return textProblem(pattern, patternLimits.patternChars);
}

export function patternListProblem(value: unknown): string | null {
  if (!isStringList(value)) return 'must be a list of strings';
  if (value.length > patternLimits.patterns) return `has more than ${patternLimits.patterns} patterns`;
  for (const [index, pattern] of value.entries()) {
    const problem = patternProblem(pattern);
    if (problem !== null) return `[${index}] ${problem}`;
  }
  return null;
}
