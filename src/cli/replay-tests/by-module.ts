import { Readable } from 'node:stream';
import { beginningOf } from '../../run/guest-journal.ts';
import { type RunResult, runGuest } from '../../run/run-guest.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { RecordedRun } from '../../runtime/durable/recorded-run.ts';
import { differs, type Finding, Outcome, same, unusable } from './judgement.ts';
import { RecalledMcp, RecalledOutput } from './recalled-mcp.ts';
import { RecalledModel } from './recalled-model.ts';
import { Recollection } from './recollection.ts';

/**
 * Whether a changed guest does what the recorded run did. It runs for real; what it asks for, the journal answers, as long
 * as it asks for the same. @throws JournalError
 */
export async function judgeByModule(
  read: ReadJournal,
  wasm: Uint8Array,
  { signal, componentCache }: GuestSurroundings,
): Promise<Finding> {
  if (read.header.streams) {
    return unusable(
      `${read.file}: the run used user streams, and the messages of a stream client cannot be replayed to a changed guest`,
    );
  }
  const recalled = new Recollection(read);
  const outcome = new Outcome();
  const model = new RecalledModel(recalled, outcome);
  const output = new RecalledOutput(recalled, outcome);
  const { header } = read;
  const result = await runGuest({
    wasm,
    ...beginningOf(header),
    backend: model.find,
    mcp: header.policy.enabled ? new RecalledMcp(recalled, model, outcome) : null,
    chance: recalled.chance,
    stdin: () => Readable.from([recalled.input]),
    output: (stream, bytes) => output.take(stream, bytes),
    signal: AbortSignal.any([signal, outcome.signal]),
    componentCache,
  });
  if (outcome.found === null) compareEnd(result, recalled, model, output, outcome);
  return outcome.found ?? same();
}

function compareEnd(
  result: RunResult,
  recalled: Recollection,
  model: RecalledModel,
  output: RecalledOutput,
  outcome: Outcome,
): void {
  const { end } = recalled;
  const missing = recalled.allRequests.length - model.made;
  const uncalled = recalled.calls.find(({ isTaken }) => !isTaken);
  const now = `${endText(result.reason, result.exitCode)}${result.message === null ? '' : `: ${result.message}`}`;
  if (missing > 0) {
    const recorded = `${recalled.allRequests.length} requests to the model`;
    outcome.differs({ kind: 'request', where: 'the end', recorded, now: `${now} after ${model.made} requests` });
  } else if (uncalled !== undefined) {
    const recorded = `${uncalled.tool} of ${uncalled.server} is called with ${uncalled.args}`;
    outcome.differs({ kind: 'call', where: 'the end', recorded, now: `${now} without that call` });
  }
  output.finish();
  if (end === null) outcome.ends();
  else if (end.reason !== result.reason || end.exit !== result.exitCode) {
    outcome.differs({ kind: 'end', where: 'the end', recorded: endText(end.reason, end.exit), now });
  }
}

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
