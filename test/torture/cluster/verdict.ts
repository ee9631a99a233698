import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import type { StoredRun } from '../../../src/server/queue/nats/run-entries.ts';
import { hasEnded } from '../../../src/server/records/run.ts';
import type { Failures } from '../topic.ts';
import type { Effect } from './cluster-life.ts';
import { fenceFaults, takenOver, type Written } from './journal-streams.ts';

const UNKNOWN = 'mcp_outcome_unknown';

/** Everything that is known of one run when all is over. */
export interface Evidence {
  readonly id: string;
  readonly stored: StoredRun | null;
  /** How often its entry was given an end. */
  readonly ends: number;
  readonly journal: readonly Written[];
  /** What its tools were told to do. */
  readonly effects: readonly Effect[];
  readonly calls: number;
}

/** Sums over runs. */
export class Tally {
  resumed = 0;
  takenOver = 0;
  messages = 0;
  seen = 0;
  /** Calls that their journal calls unknown, and those of them that were made. */
  unknown = 0;
  unknownSeen = 0;

  add({ id, stored, ends, journal, effects, calls }: Evidence, failures: Failures): void {
    const fault = (text: string) => failures.add(`${id}: ${text}`);
    if (stored === null || !hasEnded(stored.run.status)) {
      fault(
        stored === null ? 'it was acknowledged and is lost' : `it is ${stored.run.status}: ${JSON.stringify(stored)}`,
      );
      return;
    }
    const { status, exit, attempts, ended_at_ms } = stored.run;
    if (status !== 'succeeded') fault(`it ended as ${status}: ${JSON.stringify(exit)}`);
    if (ends !== 1) fault(`its entry was given ${ends} ends`);
    for (const text of fenceFaults(journal)) fault(text);
    const finished = journal.filter(({ kind }) => kind === 'finished').map(({ data }) => JSON.parse(text(data)));
    if (finished.length !== 1) fault(`its journal has ${finished.length} ends`);
    else if (finished[0].ended_at_ms !== ended_at_ms) fault('its entry has another end than its journal');
    if (!/all done\n$/.test(resultOf(stored))) fault(`its result is ${JSON.stringify(resultOf(stored))}`);
    this.resumed += attempts > 1 ? 1 : 0;
    this.takenOver += takenOver(journal);
    this.messages += journal.length;
    this.seen += effects.length;
    this.#calls(journal, effects, calls, fault);
  }

  /** Whether what the tools saw is what the journal says. */
  #calls(journal: readonly Written[], effects: readonly Effect[], calls: number, fault: (text: string) => void): void {
    const blocks = journal.filter(({ kind }) => kind === 'block').map(({ data }) => data);
    const { records } = readJournal('its journal', null, Buffer.concat(blocks));
    const started = records.filter((record) => record.t === 'tool.started');
    const ends = new Map(records.flatMap((record) => (record.t === 'tool.finished' ? [[record.ordinal, record]] : [])));
    if (started.length !== calls || ends.size !== calls) {
      fault(`its journal has ${started.length} calls that were begun and ${ends.size} that ended, of ${calls}`);
    }
    for (const { ordinal, attempt } of effects) {
      if (!started.some((one) => one.ordinal === ordinal && one.attempt === attempt))
        fault(`the call ${ordinal} of attempt ${attempt} was made, and its journal does not have it`);
    }
    for (const [ordinal, { code, result }] of ends) {
      const seen = effects.filter((effect) => effect.ordinal === ordinal).length;
      if (seen > 1) fault(`the call ${ordinal} was made ${seen} times`);
      if (code === UNKNOWN) {
        this.unknown += 1;
        this.unknownSeen += seen;
      } else if (code !== null) fault(`the call ${ordinal} failed: ${result}`);
      else if (seen === 0) fault(`the call ${ordinal} has a result and was not made`);
    }
  }
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

function resultOf({ result }: StoredRun): string {
  return result !== null && 'inline' in result ? Buffer.from(result.inline, 'base64').toString() : '';
}
