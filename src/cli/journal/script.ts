import { scriptOf } from '../../agent/chat/backends/journal-script.ts';
import { checkScript } from '../../agent/chat/backends/script-schema.ts';
import { JournalError } from '../../runtime/durable/journal-error.ts';
import type { Call } from '../command-table.ts';
import { spearExitCodes } from '../exit-codes.ts';
import type { JournalKeyFlags } from './flags.ts';
import { withJournal } from './open-journal.ts';
import { writeMade } from './written.ts';

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
