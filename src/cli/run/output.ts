import { isatty } from 'node:tty';
import { cutText } from '../../base/cut-text.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { FdOutput } from '../../hostcalls/output.ts';
import { knownSecrets } from '../../secrets/redactor.ts';
import { WaitDisplay } from './wait-display.ts';

// Not process.stdout: its first use costs milliseconds, and a reader that went away would be an uncaught error.
const output = new FdOutput({ stdout: 1, stderr: 2 });

const STDERR = 2;
const DEFAULT_COLUMNS = 80;
const ERASED = '\r\u001b[K';

/** What the run waits for, on stderr. Not while a guest prints: its thread writes by itself, and nobody can tell. */
export const waits = new WaitDisplay({ say: (text) => say(text), draw: canRedraw() ? draw : null });

function canRedraw(): boolean {
  const { TERM = 'dumb' } = processEnvironment;
  return isatty(STDERR) && TERM !== 'dumb';
}

/** Never as wide as the terminal: a line that it breaks could not be taken away again. */
function draw(text: string): void {
  const line = text === '' ? '' : `spear-run: ${knownSecrets.redact(text)}`;
  const columns = process.stderr.columns || DEFAULT_COLUMNS;
  output.write('stderr', Buffer.from(`${ERASED}${cutText(line, Math.max(1, columns - 2))}`));
}

/** What was asked for: help, the version, a result. */
export function print(text: string): void {
  waits.erase();
  output.write('stdout', Buffer.from(knownSecrets.redact(text)));
}

/** What the host has to say while it runs a guest. */
export function say(text: string): void {
  waits.erase();
  output.write('stderr', Buffer.from(`spear-run: ${knownSecrets.redact(text)}\n`));
}

export function sayBlock(text: string): void {
  waits.erase();
  output.write('stderr', Buffer.from(`${knownSecrets.redact(text)}\n`));
}
