import { type RunResult, runGuest } from '../../run/run-guest.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { RecordedRun } from '../../runtime/durable/recorded-run.ts';
import { differs, type Finding, same, unusable } from './judgement.ts';

/** What every guest that is judged shares. */
export interface GuestSurroundings {
  readonly signal: AbortSignal;
  readonly componentCache: string | null;
}

/** Whether the run is the same again, with the module that it was recorded with. @throws JournalError */
export async function judgeByReplay(
  read: ReadJournal,
  key: string | null,
  surroundings: GuestSurroundings,
): Promise<Finding> {
  const { file, header } = read;
  const { end } = new RecordedRun(read);
  const wasm = header.wasm.path;
  if (wasm === null) return unusable(`${file}: the journal names no module file: the module was passed as bytes`);
  const result = await runGuest({ wasm, journal: { file, mode: 'replay', key }, output: () => {}, ...surroundings });
  if (result.reason === 'diverged') {
    const recorded = 'the recorded history';
    return differs({ by: 'replay', kind: 'diverged', where: 'the replay', recorded, now: result.message ?? '' });
  }
  if (end === null && result.reason === 'interrupted') return same(true);
  const recorded = endText(end?.reason ?? 'interrupted', end?.exit ?? null);
  const now = endText(result.reason, result.exitCode);
  return recorded === now ? same() : differs({ by: 'replay', kind: 'end', where: 'the end', recorded, now });
}

export const endText = (reason: string, exit: RunResult['exitCode']): string =>
  exit === null ? `the run ends with the reason ${reason}` : `the guest exits with ${exit}`;
