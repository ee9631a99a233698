import { visibleLines } from '../base/visible-text.ts';
import { knownSecrets } from '../secrets/redactor.ts';

const MAX_CAUSES = 5;

/**
 * A mistake of ours ends the process like any uncaught error, but what is printed about it goes through the redactor:
 * Node would print the error with everything that hangs on it. Rejections that nobody handles arrive here too.
 */
export function crashWithoutSecrets(command: string, exitCode: number): void {
  process.on('uncaughtException', (error: unknown) => {
    try {
      process.stderr.write(`${command}: an internal error, please report it\n${crashText(error)}\n`);
    } finally {
      process.exit(exitCode);
    }
  });
}

/** Stacks only: what else hangs on an error may be a request with its headers. */
function crashText(error: unknown): string {
  const stacks: string[] = [];
  let cause = error;
  for (let depth = 0; depth <= MAX_CAUSES && cause !== undefined; depth++) {
    stacks.push(cause instanceof Error ? (cause.stack ?? String(cause)) : String(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return visibleLines(knownSecrets.redact(stacks.join('\ncaused by: ')));
}
