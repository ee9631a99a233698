import { spawnSync } from 'node:child_process';
import { beforeEach } from 'vitest';
import { type Engine, findEngine } from '../../scripts/engines/bring.ts';

/**
 * Programs that some tests need and not every machine has. A missing one is a vitest skip whose text names the command
 * that installs it; in CI it is a failure. Each check returns the text of the skip, or undefined if the test can run.
 */
export type Missing = string | undefined;

/** Runs no test of the enclosing block or file while something is missing. */
export function skipIfMissing(...missing: readonly Missing[]): void {
  const reason = missing.find((text) => text !== undefined);
  beforeEach(({ skip }) => {
    if (reason !== undefined) skip(reason);
  });
}

export function needs(isThere: boolean, what: string, install: string): Missing {
  return isThere ? undefined : notThere(`${what} is missing: ${install}`);
}

/** A command on PATH. */
export function needsCommand(command: string, install: string, args: readonly string[] = ['--version']): Missing {
  return needs(spawnSync(command, args).error === undefined, command, install);
}

/** The sandbox of stdio servers. */
export const needsBubblewrap = (): Missing => needsCommand('bwrap', 'apt-get install bubblewrap');

/** An engine that `npm run engines` installs; a test never builds one. */
export function needsEngine(engine: Engine): Missing {
  try {
    findEngine(engine);
    return undefined;
  } catch (error) {
    return notThere(error instanceof Error ? error.message : String(error));
  }
}

const printed = new Set<string>();

/** Printed too: the summary of vitest only counts skips. */
function notThere(text: string): string {
  if (process.env.CI) throw new Error(`${text} (in CI no test is skipped)`);
  if (!printed.has(text)) process.stderr.write(`skipped: ${text}\n`);
  printed.add(text);
  return text;
}
