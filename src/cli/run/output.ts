import { FdOutput } from '../../hostcalls/output.ts';
import { knownSecrets } from '../../secrets/redactor.ts';

// Not process.stdout: its first use costs milliseconds, and a reader that went away would be an uncaught error.
const output = new FdOutput({ stdout: 1, stderr: 2 });

/** What was asked for: help, the version, a result. */
export function print(text: string): void {
  output.write('stdout', Buffer.from(knownSecrets.redact(text)));
}

/** What the host has to say while it runs a guest. */
export function say(text: string): void {
  output.write('stderr', Buffer.from(`spear-run: ${knownSecrets.redact(text)}\n`));
}

export function sayBlock(text: string): void {
  output.write('stderr', Buffer.from(`${knownSecrets.redact(text)}\n`));
}
