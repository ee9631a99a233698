import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { scriptOf } from '../../agent/chat/backends/journal-script.ts';
import { checkScript } from '../../agent/chat/backends/script-schema.ts';
import { errorCode } from '../../base/errors.ts';
import { writePrivateFile } from '../../base/private-file.ts';
import { JournalError } from '../../runtime/durable/journal-error.ts';
import type { Call } from '../command-table.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import type { JournalKeyFlags } from './flags.ts';
import { withJournal } from './open-journal.ts';

type ScriptFlags = JournalKeyFlags & { readonly output: string | undefined };

/** `spear journal script FILE`: the model's turns, for `spear-run --script`. */
export async function scriptJournal({ flags, args: [file = ''] }: Call<ScriptFlags>): Promise<number> {
  return withJournal(file, flags, ({ records }) => {
    const script = scriptOf(records);
    if (script.turns.length === 0) throw new JournalError(file, 'the run has no model turns, so there is no script');
    const checked = checkScript(file, script);
    if ('complaint' in checked) throw new JournalError(file, `cannot be converted to a script: ${checked.complaint}`);
    writeMade(file, flags.output ?? '-', `${JSON.stringify(script, null, 2)}\n`);
    return spearExitCodes.ok;
  });
}

/** Writes a file readable by its owner only; `-` is stdout. Never overwrites the journal itself. */
function writeMade(journal: string, out: string, text: string): void {
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
