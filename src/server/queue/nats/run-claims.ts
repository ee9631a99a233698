import { hasEnded } from '../../records/run.ts';
import type { Claim, Line } from '../run-queue.ts';
import { patiently } from './nats-errors.ts';
import { lastMessage } from './nats-journals.ts';
import type { NatsParts } from './nats-parts.ts';
import { type FoundRun, OwnedRun, RunningMark, unreachable } from './owned-run.ts';
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
  /** The message of a run that is parked. */
  readonly letGo: (delivery: Delivery) => Promise<void>;
}

/** A run that this node has taken. */
export interface TakenRun {
  readonly claim: Claim;
  readonly owned: OwnedRun;
}

/** A line without room here may have some elsewhere. */
const NO_ROOM_MS = 1_000;
/** A run that another node wants first is offered again so soon. */
const WANTED_MS = 100;
const ANSWER_MS = 5_000;
const RUNNING = { status: 'running', status_reason: null } as const;

/** Makes claims of deliveries: whose a run is stands in its journal, and in its entry for those who look at it. */
export class RunClaims {
  readonly #options: RunClaimsOptions;
  /** New runs of which nobody was told yet that they run here. */
  readonly #unmarked = new Map<string, OwnedRun>();

  constructor(options: RunClaimsOptions) {
    this.#options = options;
    // One that is cancelled then has ended, and its guest is to end too.
    options.mirror.onChange(({ id, status }) => {
      if (hasEnded(status)) void this.#unmarked.get(id)?.isMarked();
    });
  }

  /** Null: there is nothing to do about it here. */
  async take(node: string, delivery: Delivery, hasRoom: (line: Line) => boolean): Promise<TakenRun | null> {
    try {
      return await this.#take(node, delivery, hasRoom);
    } catch {
      delivery.giveBack(NO_ROOM_MS);
      return null;
    }
  }

  async #take(node: string, delivery: Delivery, hasRoom: (line: Line) => boolean): Promise<TakenRun | null> {
    const { parts, leaseMs, endings, letGo } = this.#options;
    const { namespace } = delivery;
    const { entry, last } = await this.#find(delivery);
    // Somebody else could have published that: an entry and its message belong together.
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
      await letGo(delivery);
      return null;
    }
    if (last?.kind === 'finished') return endings.again(delivery, last);
    const { task, submitted_by: submittedBy } = entry.run;
    if (isWantedElsewhere(entry, node, delivery.times)) {
      delivery.giveBack(WANTED_MS);
      return null;
    }
    if (!hasRoom({ namespace, task, submittedBy })) {
      delivery.giveBack(NO_ROOM_MS);
      return null;
    }
    const owned = new OwnedRun({ delivery, entry, last, node }, { ...parts, leaseMs });
    if (!(await owned.append('claim', JSON.stringify({ node, at: Date.now() })))) return null;
    return this.#begin(owned, last === null);
  }

  /** What is known of a run that was delivered: a new one brings its entry, and has no journal. It may be cancelled. */
  async #find(delivery: Delivery): Promise<Omit<FoundRun, 'entry'> & { readonly entry: RunEntry | null }> {
    const { parts, entries, mirror } = this.#options;
    const { namespace, run: id, submitted } = delivery;
    if (submitted !== null && mirror.revisionOf(id) <= submitted.revision) {
      return { delivery, entry: submitted, last: null };
    }
    const { jsm, patienceMs } = parts;
    const [entry, last] = await Promise.all([
      entries.get(id),
      patiently(patienceMs, () => lastMessage(jsm, journalSubject(namespace, id))),
    ]);
    return { delivery, entry, last };
  }

  /** A run that nobody has begun before need not say at once that it runs. Null: it was ended meanwhile. */
  async #begin(owned: OwnedRun, isNew: boolean): Promise<TakenRun | null> {
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

  /** Writes that it runs here. False: it was ended, it is another node's, or nobody can be told. */
  async #mark(owned: OwnedRun): Promise<boolean> {
    const { delivery, token, begun } = owned;
    const begin = async (now: RunEntry) => {
      if (hasEnded(now.run.status)) {
        delivery.done();
        return null;
      }
      // Somebody has written there since: a node that has taken the run, or one who wants it to end.
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
