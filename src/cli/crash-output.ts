import { visibleLines } from '../base/visible-text.ts';
import { knownSecrets } from '../server/secrets/redactor.ts';

const MAX_CAUSES = 5;

/** Prints uncaught errors and unhandled rejections through the redactor, and exits: Node would print all their fields. */
export function crashWithoutSecrets(command: string, exitCode: number): void {
  process.on('uncaughtException', (error: unknown) => {
    try {
      process.stderr.write(`${command}: internal error, please report it\n${crashText(error)}\n`);
    } finally {
      process.exit(exitCode);
    }
  });
}

/** Stacks only: other fields of an error may hold a request with its headers. */
function crashText(error: unknown): string {
  const stacks: string[] = [];
  let cause = error;
  for (let depth = 0; depth <= MAX_CAUSES && cause !== undefined; depth++) {
    stacks.push(cause instanceof Error ? (cause.stack ?? String(cause)) : String(cause));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return visibleLines(knownSecrets.redact(stacks.join('\ncaused by: ')));
}
