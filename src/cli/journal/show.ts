import { visible, visibleJson } from '../../base/visible-text.ts';
import { timelineOf } from '../../server/timeline/timeline.ts';
import type { Timeline } from '../../server/timeline/timeline-entry.ts';
import { timelinePage } from '../../server/timeline/timeline-page.ts';
import type { Call } from '../command-table.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { wantsColours } from '../formatting.ts';
import type { JournalKeyFlags } from './flags.ts';
import { withJournal } from './open-journal.ts';
import { timelineText } from './timeline-text.ts';
import { writeMade } from './written.ts';

interface ShowFlags extends JournalKeyFlags {
  readonly json: boolean;
  readonly html: boolean;
  readonly full: boolean;
}

/** `spear journal show FILE`: the timeline of a run. */
export async function showJournal({ flags, args }: Call<ShowFlags>): Promise<number> {
  const [file = '', out] = args;
  const { json, html, full } = flags;
  if (out !== undefined && !html) throw new UsageError(`unexpected argument ${JSON.stringify(out)}; OUT needs --html`);
  if (json && html) throw new UsageError('--json and --html cannot be combined');
  return withJournal(file, flags, (journal) => {
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
