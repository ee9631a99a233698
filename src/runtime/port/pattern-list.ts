import { textProblem } from '../../base/text-problem.ts';
import { recordLimits } from '../../server/records/record-limits.ts';

// Apart from pattern.ts, because the guest's thread checks lists and never matches a name.

export function isStringList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

export function patternProblem(pattern: string): string | null {
  return textProblem(pattern, recordLimits.patternChars);
}

export function patternListProblem(value: unknown): string | null {
  if (!isStringList(value)) return 'must be a list of strings';
  if (value.length > recordLimits.patterns) return `has more than ${recordLimits.patterns} patterns`;
  for (const [index, pattern] of value.entries()) {
    const problem = patternProblem(pattern);
    if (problem !== null) return `[${index}] ${problem}`;
  }
  return null;
}
