import { hasEnded, type RunRecord } from '../../records/run.ts';
import type { RunEnding } from '../run-queue.ts';
import { patiently } from './nats-errors.ts';
import { type JournalMessage, objectsOf, parsed, readMessages } from './nats-journals.ts';
import type { Body, NatsParts } from './nats-parts.ts';
import type { Begun, OwnedRun } from './owned-run.ts';
import type { ChangeEntry, RunEntry } from './run-entries.ts';
import { deadSubject, journalSubject } from './streams.ts';
import type { Delivery } from './work-messages.ts';

const ANSWER_MS = 5_000;

/** How a run ended, as its journal has it. */
interface Finished {
  readonly status: RunEnding['status'];
  readonly exit: RunEnding['exit'];
  readonly cost: RunEnding['cost'];
  /** @default as the entry has it */
  readonly degraded?: RunEnding['degraded'];
  readonly result: Body;
  readonly result_bytes: number;
  readonly ended_at_ms: number;
  /** @default as the entry has it: it was written by an older node */
  readonly begun?: Begun;
}

/** Ends of runs: first in the journal, then result and status in the entry, then the message is acknowledged. */
export class RunEndings {
  readonly #parts: NatsParts;
  readonly #change: ChangeEntry;

  constructor(parts: NatsParts, change: ChangeEntry) {
    this.#parts = parts;
    this.#change = change;
  }

  /** False: somebody else has the run. */
  async write(owned: OwnedRun, run: RunRecord, { result, ...ending }: RunEnding): Promise<boolean> {
    await owned.settled();
    const kept = await this.#parts.bodies.keep(run.id, 'result', result);
    const size = { result_bytes: result.byteLength, ended_at_ms: Date.now() };
    const finished: Finished = { ...ending, result: kept, ...size, begun: owned.begun };
    if (!(await (owned.mark?.skip() ?? true))) return false;
    if (!(await owned.append('finished', JSON.stringify(finished)))) return false;
    if (ending.status === 'dead') await this.#bury(run.namespace, run.id, run, finished);
    return this.#end(owned.delivery, finished, owned.objects, owned.entry);
  }

  /** It has ended, and whoever ended it did not come to say so. */
  async again(delivery: Delivery, last: JournalMessage): Promise<null> {
    const { jsm, patienceMs } = this.#parts;
    const messages = await readMessages(jsm, journalSubject(delivery.namespace, delivery.run), last.seq, patienceMs);
    const finished = parsed<Finished>(last);
    if (finished.status === 'dead') await this.#bury(delivery.namespace, delivery.run, null, finished);
    await this.#end(delivery, finished, objectsOf(messages), null);
    return null;
  }

  /** Whoever is cut off in between is followed by somebody who does it again. False: it had ended otherwise. */
  async #end(
    delivery: Delivery,
    finished: Finished,
    objects: readonly string[],
    known: RunEntry | null,
  ): Promise<boolean> {
    const { status, exit, cost, degraded, result, result_bytes, ended_at_ms, begun } = finished;
    const missing = degraded === undefined ? {} : { degraded: [...degraded] };
    let isOwn = true;
    const end = (now: RunEntry) => {
      if (hasEnded(now.run.status)) {
        isOwn = now.run.status === status && now.run.ended_at_ms === ended_at_ms;
        return null;
      }
      const all = [...now.objects, ...objects, ...('object' in result ? [result.object] : [])];
      const run = {
        ...now.run,
        ...begun,
        ...missing,
        status,
        exit,
        cost,
        result_bytes,
        ended_at_ms,
        status_reason: null,
      };
      return { ...now, claim: null, result, objects: [...new Set(all)], run };
    };
    await this.#change(delivery.run, end, known);
    if (status === 'dead') await patiently(this.#parts.patienceMs, () => delivery.terminate(ANSWER_MS));
    else delivery.done();
    return isOwn;
  }

  async #bury(namespace: string, id: string, run: RunRecord | null, { exit }: Finished): Promise<void> {
    const letter = JSON.stringify({ run: run ?? { id, namespace }, exit });
    await patiently(this.#parts.patienceMs, () => this.#parts.js.publish(deadSubject(namespace, id), letter));
  }
}
