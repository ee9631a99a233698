import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { errorCode } from '../../base/error-text.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import { UsageError } from '../usage-error.ts';

/** Writes what was made of a journal, for its owner alone; `-` is stdout. Never over the journal itself. */
export function writeMade(journal: string, out: string, text: string): void {
  if (out === '-') {
    process.stdout.write(text);
    return;
  }
  if (resolve(out) === resolve(journal)) throw new UsageError(`${out}: that is the journal; name another file`);
  try {
    // A folder that is not there is a slip of the pen: nobody asked for one to be made.
    if (!statSync(dirname(resolve(out))).isDirectory()) throw new UsageError(`${dirname(out)}: it is no folder`);
    writePrivateFile(out, text);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${out}: it cannot be written (${errorCode(error)})`);
  }
}
