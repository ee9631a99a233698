import { hasEnded, type RunRecord } from '../../records/run.ts';
import type { RunEnding } from '../run-queue.ts';
import { retryTransient } from './nats-errors.ts';
import { type JournalMessage, objectsOf, parsed, readMessages } from './nats-journals.ts';
import type { Body, NatsParts } from './nats-parts.ts';
import type { OwnedRun, RunStart } from './owned-run.ts';
import type { ChangeEntry, RunEntry } from './run-entries.ts';
import { deadSubject, journalSubject } from './streams.ts';
import type { Delivery } from './work-messages.ts';

const ANSWER_MS = 5_000;

/** Payload of the `finished` message. */
interface FinishedPayload {
  readonly status: RunEnding['status'];
  readonly exit: RunEnding['exit'];
  readonly cost: RunEnding['cost'];
  /** @default as in the entry */
  readonly degraded?: RunEnding['degraded'];
  readonly result: Body;
  readonly result_bytes: number;
  readonly ended_at_ms: number;
  /** Absent in messages of older versions. @default as in the entry */
  readonly begun?: RunStart;
}

/** Ends runs in three steps: the journal, then the entry with status and result, then the acknowledgement of the message. */
export class RunEndings {
  readonly #parts: NatsParts;
  readonly #change: ChangeEntry;

  constructor(parts: NatsParts, change: ChangeEntry) {
    this.#parts = parts;
    this.#change = change;
  }

  /** False: another node owns the run. */
  async write(owned: OwnedRun, run: RunRecord, { result, ...ending }: RunEnding): Promise<boolean> {
    await owned.settled();
    const stored = await this.#parts.bodies.store(run.id, 'result', result);
    const size = { result_bytes: result.byteLength, ended_at_ms: Date.now() };
    const finished: FinishedPayload = { ...ending, result: stored, ...size, begun: owned.begun };
    if (!(await (owned.mark?.skip() ?? true))) return false;
    if (!(await owned.append('finished', JSON.stringify(finished)))) return false;
    if (ending.status === 'dead') await this.#publishDead(run.namespace, run.id, run, finished);
    return this.#end(owned.delivery, finished, owned.objects, owned.entry);
  }

  /** Completes the end of a run whose node stopped after the journal message. */
  async complete(delivery: Delivery, last: JournalMessage): Promise<null> {
    const { jsm, patienceMs } = this.#parts;
    const messages = await readMessages(jsm, journalSubject(delivery.namespace, delivery.run), last.seq, patienceMs);
    const finished = parsed<FinishedPayload>(last);
    if (finished.status === 'dead') await this.#publishDead(delivery.namespace, delivery.run, null, finished);
    await this.#end(delivery, finished, objectsOf(messages), null);
    return null;
  }

  /** Idempotent, because the next node repeats it after an interruption. False: the run had ended with another outcome. */
  async #end(
    delivery: Delivery,
    finished: FinishedPayload,
    objects: readonly string[],
    known: RunEntry | null,
  ): Promise<boolean> {
    const { status, exit, cost, degraded, result, result_bytes, ended_at_ms, begun } = finished;
    const missing = degraded === undefined ? {} : { degraded: [...degraded] };
    let isOwn = true;
    const ending = { status, exit, cost, result_bytes, ended_at_ms, status_reason: null };
    const end = (now: RunEntry) => {
      if (hasEnded(now.run.status)) {
        isOwn = now.run.status === status && now.run.ended_at_ms === ended_at_ms;
        return null;
      }
      const all = [...now.objects, ...objects, ...('object' in result ? [result.object] : [])];
      const run = { ...now.run, ...begun, ...missing, ...ending };
      return { ...now, claim: null, result, objects: [...new Set(all)], run };
    };
    await this.#change(delivery.run, end, known);
    if (status === 'dead') await retryTransient(this.#parts.patienceMs, () => delivery.terminate(ANSWER_MS));
    else delivery.done();
    return isOwn;
  }

  /** Publishes a dead run to the stream of dead runs. */
  async #publishDead(namespace: string, id: string, run: RunRecord | null, { exit }: FinishedPayload): Promise<void> {
    const message = JSON.stringify({ run: run ?? { id, namespace }, exit });
    await retryTransient(this.#parts.patienceMs, () => this.#parts.js.publish(deadSubject(namespace, id), message));
  }
}
