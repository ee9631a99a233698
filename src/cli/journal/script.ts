import { scriptOf } from '../../chat/backends/journal-script.ts';
import { checkScript } from '../../chat/backends/script-schema.ts';
import { JournalError } from '../../journal/journal-error.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { parseFlags } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';
import { journalKeyOptions } from './key-flag.ts';
import { withJournal } from './opened.ts';
import { writeMade } from './written.ts';

const options = { ...journalKeyOptions, output: { type: 'string', short: 'o' } } as const;
const INDENT = 2;

/** `spear journal script FILE`: the model's turns, for `spear-run --script`. */
export async function scriptJournal(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseFlags(argv, options, 'spear journal script');
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) throw new UsageError('usage: spear journal script FILE [-o OUT]');
  return withJournal(file, values, ({ records }) => {
    const script = scriptOf(records);
    if (script.turns.length === 0) throw new JournalError(file, 'no model answered in this run: there is no script');
    const checked = checkScript(file, script);
    if ('complaint' in checked) throw new JournalError(file, `no script can be made of it: ${checked.complaint}`);
    writeMade(file, values.output ?? '-', `${JSON.stringify(script, null, INDENT)}\n`);
    return spearExitCodes.ok;
  });
}
