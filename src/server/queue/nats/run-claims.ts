import { hasEnded } from '../../records/run.ts';
import type { Claim, QueueKey } from '../run-queue.ts';
import { retryTransient } from './nats-errors.ts';
import { lastMessage } from './nats-journals.ts';
import type { NatsParts } from './nats-parts.ts';
import { type DeliveredRun, OwnedRun, RunningMark, unreachable } from './owned-run.ts';
import type { RunEndings } from './run-endings.ts';
import { type ChangeEntry, isWantedElsewhere, type RunEntries, type RunEntry } from './run-entries.ts';
import type { RunMirror } from './run-mirror.ts';
import { journalSubject } from './streams.ts';
import type { Delivery } from './work-messages.ts';

export interface RunClaimsOptions {
  readonly parts: NatsParts;
  readonly leaseMs: number;
  readonly entries: RunEntries;
  readonly mirror: RunMirror;
  readonly endings: RunEndings;
  readonly change: ChangeEntry;
  /** Acknowledges the message of a parked run. */
  readonly unpublish: (delivery: Delivery) => Promise<void>;
}

/** A run that this node has claimed. */
export interface ClaimedRun {
  readonly claim: Claim;
  readonly owned: OwnedRun;
}

/** Redelivery delay of a run that must not start here now: another node may have room. */
const NO_ROOM_MS = 1_000;
/** Redelivery delay of a run that another node wants. */
const WANTED_MS = 100;
const ANSWER_MS = 5_000;
const RUNNING = { status: 'running', status_reason: null } as const;

/** Turns deliveries into claims. The journal decides which node owns a run; the entry shows it to readers. */
export class RunClaims {
  readonly #options: RunClaimsOptions;
  /** Claimed runs whose entries do not have the status `running` yet. */
  readonly #unmarked = new Map<string, OwnedRun>();

  constructor(options: RunClaimsOptions) {
    this.#options = options;
    // A cancellation ends a run that still looks queued; the failed write ends its guest.
    options.mirror.onChange(({ id, status }) => {
      if (hasEnded(status)) void this.#unmarked.get(id)?.isMarked();
    });
  }

  /** Null: not claimed. */
  async take(node: string, delivery: Delivery, hasRoom: (line: QueueKey) => boolean): Promise<ClaimedRun | null> {
    try {
      return await this.#take(node, delivery, hasRoom);
    } catch {
      delivery.return(NO_ROOM_MS);
      return null;
    }
  }

  async #take(node: string, delivery: Delivery, hasRoom: (line: QueueKey) => boolean): Promise<ClaimedRun | null> {
    const { parts, leaseMs, endings, unpublish } = this.#options;
    const { namespace } = delivery;
    const { entry, last } = await this.#find(delivery);
    // A message that does not match its entry was not published by a node.
    if (
      entry === null ||
      entry.run.namespace !== namespace ||
      entry.run.pool !== delivery.pool ||
      hasEnded(entry.run.status)
    ) {
      await delivery.acknowledge(ANSWER_MS);
      return null;
    }
    if (entry.run.status === 'parked') {
      await unpublish(delivery);
      return null;
    }
    if (last?.kind === 'finished') return endings.complete(delivery, last);
    const { task, submitted_by: submittedBy } = entry.run;
    if (isWantedElsewhere(entry, node, delivery.times)) {
      delivery.return(WANTED_MS);
      return null;
    }
    if (!hasRoom({ namespace, task, submittedBy })) {
      delivery.return(NO_ROOM_MS);
      return null;
    }
    const owned = new OwnedRun({ delivery, entry, last, node }, { ...parts, leaseMs });
    if (!(await owned.append('claim', JSON.stringify({ node, at: Date.now() })))) return null;
    return this.#begin(owned, last === null);
  }

  /** The message of a new run contains its entry, and such a run has no journal. */
  async #find(delivery: Delivery): Promise<Omit<DeliveredRun, 'entry'> & { readonly entry: RunEntry | null }> {
    const { parts, entries, mirror } = this.#options;
    const { namespace, run: id, submitted } = delivery;
    if (submitted !== null && mirror.revisionOf(id) <= submitted.revision) {
      return { delivery, entry: submitted, last: null };
    }
    const { jsm, patienceMs } = parts;
    const [entry, last] = await Promise.all([
      entries.get(id),
      retryTransient(patienceMs, () => lastMessage(jsm, journalSubject(namespace, id))),
    ]);
    return { delivery, entry, last };
  }

  /** The first attempt may start before its status is written. Null: the run ended meanwhile. */
  async #begin(owned: OwnedRun, isNew: boolean): Promise<ClaimedRun | null> {
    const { attempt, lost, begun } = owned;
    const { run: id } = owned.delivery;
    this.#unmarked.set(id, owned);
    owned.mark = new RunningMark(
      () => this.#mark(owned),
      () => this.#unmarked.delete(id),
    );
    if (!isNew && !(await owned.isMarked())) return null;
    const { run, cancel, input } = owned.entry;
    const claim: Claim = {
      run: { ...run, ...begun, ...RUNNING },
      attempt,
      isCancelled: cancel,
      input: () => this.#options.parts.bodies.read(input),
      lost,
    };
    return { claim, owned };
  }

  /** Writes the status `running`. False: the run was ended or claimed elsewhere, or the write failed. */
  async #mark(owned: OwnedRun): Promise<boolean> {
    const { delivery, token, begun } = owned;
    const begin = async (now: RunEntry) => {
      if (hasEnded(now.run.status)) {
        delivery.done();
        return null;
      }
      // The entry changed: by another node that claimed the run, or by a cancellation.
      const isAsItWas = now.revision === owned.entry.revision || now.claim === token;
      if (!isAsItWas && !(await owned.isLast())) return null;
      return { ...now, claim: token, wantedBy: null, run: { ...now.run, ...begun, ...RUNNING } };
    };
    try {
      const marked = await this.#options.change(delivery.run, begin, owned.entry);
      if (marked === null) owned.lose('the run was cancelled, or another node has claimed it');
      else owned.entry = marked;
      return marked !== null;
    } catch (error) {
      owned.lose(unreachable(error));
      return false;
    }
  }
}
