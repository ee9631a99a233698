import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { errorCode } from '../../base/error-text.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import { UsageError } from '../exit-codes.ts';

/** Writes a file readable by its owner only; `-` is stdout. Never overwrites the journal itself. */
export function writeMade(journal: string, out: string, text: string): void {
  if (out === '-') {
    process.stdout.write(text);
    return;
  }
  if (resolve(out) === resolve(journal)) throw new UsageError(`${out}: is the journal itself; name another file`);
  try {
    // A missing directory is more likely a typo than a request to create it.
    if (!statSync(dirname(resolve(out))).isDirectory()) throw new UsageError(`${dirname(out)}: not a directory`);
    writePrivateFile(out, text);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${out}: cannot be written (${errorCode(error)})`);
  }
}
