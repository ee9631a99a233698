import { Readable } from 'node:stream';
import { beginningOf } from '../../run/guest-journal.ts';
import { type RunResult, runGuest } from '../../run/run-guest.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { RecordedRun } from '../../runtime/durable/recorded-run.ts';
import { differs, type Finding, Outcome, same, unusable } from './outcome.ts';
import { RecordedHistory } from './recorded-history.ts';
import { ComparedOutput, ReplayedMcp } from './replayed-mcp.ts';
import { ReplayedModel } from './replayed-model.ts';

/**
 * Compares a changed guest with the recorded run. The guest is executed; its requests are answered from the journal as
 * long as they equal the recorded ones. @throws JournalError
 */
export async function testWithModule(
  read: ReadJournal,
  wasm: Uint8Array,
  { signal, componentCache }: GuestSurroundings,
): Promise<Finding> {
  if (read.header.streams) {
    return unusable(
      `${read.file}: the run used user streams, and the messages of a stream client cannot be replayed to a changed guest`,
    );
  }
  const history = new RecordedHistory(read);
  const outcome = new Outcome();
  const model = new ReplayedModel(history, outcome);
  const output = new ComparedOutput(history, outcome);
  const { header } = read;
  const result = await runGuest({
    wasm,
    ...beginningOf(header),
    backend: model.find,
    mcp: header.policy.enabled ? new ReplayedMcp(history, model, outcome) : null,
    chance: history.chance,
    stdin: () => Readable.from([history.input]),
    output: (stream, bytes) => output.take(stream, bytes),
    signal: AbortSignal.any([signal, outcome.signal]),
    componentCache,
  });
  if (outcome.found === null) compareEnd(result, history, model, output, outcome);
  return outcome.found ?? same();
}

function compareEnd(
  result: RunResult,
  history: RecordedHistory,
  model: ReplayedModel,
  output: ComparedOutput,
  outcome: Outcome,
): void {
  const { end } = history;
  const missing = history.allRequests.length - model.made;
  const uncalled = history.calls.find(({ isTaken }) => !isTaken);
  const now = `${endText(result.reason, result.exitCode)}${result.message === null ? '' : `: ${result.message}`}`;
  if (missing > 0) {
    const recorded = `${history.allRequests.length} requests to the model`;
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

/** Options that all tested guests share. */
export interface GuestSurroundings {
  readonly signal: AbortSignal;
  readonly componentCache: string | null;
}

/** Replays the run with the module it was recorded with. @throws JournalError */
export async function testByReplay(
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
