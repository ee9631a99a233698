import { visible } from '../base/text.ts';
import { knownSecrets } from '../server/secrets/redactor.ts';
import type { ProgramOutput } from './run-program.ts';

/** Output of a command that runs no guest: redacted, and without control characters on stderr. */
export const outputOf = (program: string): ProgramOutput => ({
  print: (text) => void process.stdout.write(knownSecrets.redact(text)),
  say: (text) => void process.stderr.write(`${program}: ${visible(knownSecrets.redact(text))}\n`),
});

/** Longest list that is printed in full; longer ones are counted. */
export const MAX_LISTED = 20;

/** At most {@link MAX_LISTED} lines, and how many more there are. */
export function bounded(lines: readonly string[]): readonly string[] {
  if (lines.length <= MAX_LISTED) return lines;
  return [...lines.slice(0, MAX_LISTED), `… and ${lines.length - MAX_LISTED} more`];
}
