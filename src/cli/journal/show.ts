import { visibleJson } from '../../base/text.ts';
import { timelineOf } from '../../server/timeline/timeline.ts';
import type { Call } from '../command-table.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { wantsColours } from '../formatting.ts';
import type { JournalKeyFlags } from './flags.ts';
import { withJournal } from './open-journal.ts';
import { timelineText } from './timeline-text.ts';

interface ShowFlags extends JournalKeyFlags {
  readonly json: boolean;
  readonly full: boolean;
}

/** `spear journal show FILE`: the timeline of a run. */
export async function showJournal({ flags, args }: Call<ShowFlags>): Promise<number> {
  const [file = ''] = args;
  const { json, full } = flags;
  return withJournal(file, flags, (journal) => {
    const timeline = timelineOf(journal, { full });
    process.stdout.write(json ? `${visibleJson(JSON.stringify(timeline))}\n` : timelineText(timeline, wantsColours()));
    return spearExitCodes.ok;
  });
}
