import { visible, visibleJson } from '../../base/visible-text.ts';
import { timelineOf } from '../../journal/timeline.ts';
import type { Timeline } from '../../journal/timeline-entry.ts';
import { timelinePage } from '../../journal/timeline-page.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { wantsColours } from '../paint.ts';
import { parseFlags } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';
import { journalKeyOptions } from './key-flag.ts';
import { withJournal } from './opened.ts';
import { timelineText } from './timeline-text.ts';
import { writeMade } from './written.ts';

const options = {
  ...journalKeyOptions,
  json: { type: 'boolean' },
  html: { type: 'boolean' },
  full: { type: 'boolean' },
} as const;
const USAGE = 'usage: spear journal show FILE [--full] [--json | --html [OUT]]';

/** `spear journal show FILE`: what happened in a run, for people. */
export async function showJournal(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseFlags(argv, options, 'spear journal show');
  const [file, out, ...more] = positionals;
  const { json = false, html = false, full = false } = values;
  if (file === undefined || more.length > 0 || (out !== undefined && !html)) throw new UsageError(USAGE);
  if (json && html) throw new UsageError('--json and --html: one of them');
  return withJournal(file, values, (journal) => {
    const timeline = timelineOf(journal, { full });
    if (html) writePage(file, out ?? `${file}.html`, timeline);
    else
      process.stdout.write(
        json ? `${visibleJson(JSON.stringify(timeline))}\n` : timelineText(timeline, wantsColours()),
      );
    return spearExitCodes.ok;
  });
}

function writePage(file: string, out: string, timeline: Timeline): void {
  writeMade(file, out, timelinePage(timeline));
  if (out !== '-') process.stderr.write(`spear: wrote ${visible(out)}\n`);
}
