import type { NatsConnection } from '@nats-io/transport-node';
import { Listeners } from '../../base/listeners.ts';
import { hasEnded, type RunRecord } from '../../protocol/run.ts';
import { type Claim, type Line, type ParkedFor, QueueError, type RunEnding, type RunQueue } from '../run-queue.ts';
import { Deliveries, type Delivery } from './deliveries.ts';
import { lastMessage } from './journal-messages.ts';
import { type OpenParts, openParts } from './nats-parts.ts';
import { NatsRuns, type NatsRunsOptions } from './nats-runs.ts';
import { type FoundRun, OwnedRun, unreachable } from './owned-run.ts';
import { isWantedElsewhere, parkedEntry, wokenEntry } from './parked.ts';
import { patiently } from './patience.ts';
import { RunEndings } from './run-endings.ts';
import type { RunEntry } from './run-entries.ts';
import { RunningMark } from './running-mark.ts';
import { preparePool } from './streams.ts';
import { journalSubject } from './subjects.ts';
import { TokenCounters } from './token-counters.ts';

export interface NatsQueueOptions extends NatsRunsOptions {
  readonly leaseMs: number;
}

const FORGET_AT_ONCE = 200;
/** A line without room here may have some elsewhere. */
const NO_ROOM_MS = 1_000;
/** A run that another node wants first is offered again so soon. */
const WANTED_MS = 100;
const ANSWER_MS = 5_000;

/** A queue in NATS JetStream, for many nodes: docs/cluster.md tells what is where. */
export class NatsQueue extends NatsRuns implements RunQueue {
  readonly isShared = true;
  readonly #options: NatsQueueOptions;
  readonly #pools = new Map<string, Promise<Deliveries>>();
  readonly #owned = new WeakMap<Claim, OwnedRun>();
  readonly #work = new Listeners<void>();
  /** New runs of which nobody was told yet that they run here. */
  readonly #unmarked = new Map<string, OwnedRun>();
  readonly #tokens: TokenCounters;
  readonly #endings: RunEndings;

  protected constructor(nc: NatsConnection, options: NatsQueueOptions, open: OpenParts) {
    super(nc, open);
    this.#options = options;
    this.#tokens = new TokenCounters(nc, this.parts.jsm, options.patienceMs);
    this.#endings = new RunEndings(this.parts, (id, change, known) => this.change(id, change, known));
    // One that is cancelled then has ended, and its guest is to end too.
    this.mirror.onChange(({ id, status }) => {
      if (hasEnded(status)) void this.#unmarked.get(id)?.isMarked();
    });
  }

  /** Closes the connection when it is closed. @throws Error where streams are not as they must be */
  static override async open(nc: NatsConnection, options: NatsQueueOptions): Promise<NatsQueue> {
    return new NatsQueue(nc, options, await openParts(nc, options, options.patienceMs)).opened();
  }

  /** Runs are given out to whoever has asked for them: that one waits somewhere says nothing. */
  onWork(listener: () => void): () => void {
    return this.#work.add(listener);
  }

  async claim(
    node: string,
    pool: string,
    max: number,
    _leaseMs: number,
    hasRoom: (line: Line) => boolean,
  ): Promise<readonly Claim[]> {
    const delivered = (await this.#pool(pool)).take(max);
    const claims = await Promise.all(
      delivered.map(async (delivery) => {
        try {
          return await this.#claim(node, delivery, hasRoom);
        } catch {
          delivery.giveBack(NO_ROOM_MS);
          return null;
        }
      }),
    );
    return claims.filter((claim) => claim !== null);
  }

  async renew(claim: Claim): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null) return false;
    // A node that does not answer in time may be asked again: the lease has a third of itself for that.
    await owned.renew().catch(() => {});
    return !owned.lost.aborted;
  }

  async mark(claim: Claim, status: 'running' | 'waiting'): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null || !(await owned.isMarked())) return false;
    const mark = (now: RunEntry) =>
      now.claim === owned.token && !hasEnded(now.run.status) ? { ...now, run: { ...now.run, status } } : null;
    const entry = await this.change(claim.run.id, mark, owned.entry);
    owned.entry = entry ?? owned.entry;
    return entry !== null;
  }

  async finish(claim: Claim, ending: RunEnding): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    this.#unmarked.delete(claim.run.id);
    if (owned === null || !(await this.#endings.write(owned, claim.run, ending))) return false;
    this.#owned.delete(claim);
    return true;
  }

  async release(claim: Claim, counts: boolean): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null || !(await owned.isMarked())) return false;
    await owned.settled();
    if (!counts) owned.attempt -= 1;
    const { attempt } = owned;
    if (!(await owned.append('released', JSON.stringify({ counts })))) return false;
    await this.change(claim.run.id, (now) =>
      now.claim === owned.token
        ? { ...now, claim: null, run: { ...now.run, status: 'queued', node: null, attempts: attempt } }
        : null,
    );
    await patiently(this.#options.patienceMs, () => owned.delivery.giveBackFirst(ANSWER_MS));
    this.#owned.delete(claim);
    return true;
  }

  /** The entry first, then the message: whoever is woken in between is published by the one that comes later. */
  async park(claim: Claim, until: ParkedFor): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null || !(await owned.isMarked())) return false;
    await owned.settled();
    owned.attempt -= 1;
    const { token, attempt, delivery } = owned;
    if (!(await owned.append('parked', JSON.stringify(until)))) return false;
    const entry = await this.change(claim.run.id, (now) => parkedEntry(now, token, attempt, until));
    this.#owned.delete(claim);
    if (entry?.run.status === 'queued') {
      await patiently(this.#options.patienceMs, () => delivery.giveBackFirst(ANSWER_MS));
      return true;
    }
    await this.#letGo(delivery);
    return true;
  }

  async wake(namespace: string, id: string, wantedBy: string | null = null): Promise<boolean> {
    const known = await this.found(namespace, id);
    if (known?.run.status !== 'parked') return false;
    const woken = await this.change(id, (now) => wokenEntry(now, wantedBy));
    if (woken === null) return false;
    // Where there is no room for its message now, it is published when there is.
    await this.work.publish(namespace, woken.run.pool, id);
    return true;
  }

  async parked(pool: string, cursor: string | null, limit: number) {
    return this.mirror.parked(pool, cursor, limit);
  }

  async forget(endedBefore: number): Promise<readonly RunRecord[]> {
    const gone: RunRecord[] = [];
    for (const id of this.mirror.endedBefore(endedBefore, FORGET_AT_ONCE)) {
      const entry = await this.entries.get(id);
      if (entry === null) this.mirror.forget(id, Number.MAX_SAFE_INTEGER);
      if (entry === null || !(await this.entries.remove(entry))) continue;
      this.mirror.forget(id, entry.revision + 1);
      await this.parts.bodies.remove(entry.objects);
      gone.push(entry.run);
    }
    return gone;
  }

  spent(scope: string, day: string): Promise<number> {
    return this.#tokens.spent(scope, day);
  }

  async spend(scope: string, day: string, tokens: number): Promise<void> {
    await this.#tokens.add(scope, day, tokens);
  }

  reserve(scope: string, day: string, tokens: number, limit: number): Promise<number | null> {
    return this.#tokens.reserve(scope, day, tokens, limit);
  }

  override async close(): Promise<void> {
    if (!this.isClosed) for (const pool of this.#pools.values()) (await pool.catch(() => null))?.close();
    await super.close();
  }

  /** Sends something that may be missed. */
  tell(subject: string, text: string): void {
    if (!this.nc.isClosed()) this.nc.publish(subject, text);
  }

  /** The run behind a claim, for its journal and its events; null: it is not this node's. */
  owned(claim: Claim): OwnedRun | null {
    return this.#owned.get(claim) ?? null;
  }

  #ownedBy(claim: Claim): OwnedRun | null {
    if (this.isClosed) throw new QueueError('closed', 'the node is ending');
    const owned = this.#owned.get(claim);
    if (owned === undefined || owned.lost.aborted) return null;
    const holder = this.mirror.claimOf(claim.run.id);
    if (holder === undefined || holder === owned.token) return owned;
    // Nobody was told of it yet.
    if (holder === null && owned.mark !== null) return owned;
    owned.lose('another node has taken it');
    return null;
  }

  #pool(pool: string): Promise<Deliveries> {
    const open = async () => {
      const { jsm, patienceMs } = this.parts;
      const name = await patiently(patienceMs, () => preparePool(jsm, pool, this.#options));
      return new Deliveries(this.nc, name, () => this.#work.tell());
    };
    const known = this.#pools.get(pool) ?? open();
    this.#pools.set(pool, known);
    known.catch(() => this.#pools.delete(pool));
    return known;
  }

  /** Null: there is nothing to do about it here. */
  async #claim(node: string, delivery: Delivery, hasRoom: (line: Line) => boolean): Promise<Claim | null> {
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
    if (entry.run.status === 'parked') return this.#letGo(delivery);
    if (last?.kind === 'finished') return this.#endings.again(delivery, last);
    const { task, submitted_by: submittedBy } = entry.run;
    if (isWantedElsewhere(entry, node, delivery.times)) {
      delivery.giveBack(WANTED_MS);
      return null;
    }
    if (!hasRoom({ namespace, task, submittedBy })) {
      delivery.giveBack(NO_ROOM_MS);
      return null;
    }
    const parts = { ...this.parts, leaseMs: this.#options.leaseMs };
    const owned = new OwnedRun({ delivery, entry, last, node }, parts);
    if (!(await owned.append('claim', JSON.stringify({ node, at: Date.now() })))) return null;
    return this.#begin(owned, last === null);
  }

  /** What is known of a run that was delivered: a new one brings its entry, and has no journal. It may be cancelled. */
  async #find(delivery: Delivery): Promise<Omit<FoundRun, 'entry'> & { readonly entry: RunEntry | null }> {
    const { namespace, run: id, submitted } = delivery;
    if (submitted !== null && this.mirror.revisionOf(id) <= submitted.revision) {
      return { delivery, entry: submitted, last: null };
    }
    const { jsm, patienceMs } = this.parts;
    const [entry, last] = await Promise.all([
      this.entries.get(id),
      patiently(patienceMs, () => lastMessage(jsm, journalSubject(namespace, id))),
    ]);
    return { delivery, entry, last };
  }

  /** A run that nobody has begun before need not say at once that it runs. Null: it was ended meanwhile. */
  async #begin(owned: OwnedRun, isNew: boolean): Promise<Claim | null> {
    const { attempt, lost, begun } = owned;
    owned.mark = new RunningMark(() => this.#mark(owned));
    if (!isNew && !(await owned.isMarked())) return null;
    if (isNew) this.#unmarked.set(owned.delivery.run, owned);
    const { run, cancel, input } = owned.entry;
    const claim: Claim = {
      run: { ...run, ...begun, status: 'running' },
      attempt,
      isCancelled: cancel,
      input: () => this.parts.bodies.read(input),
      lost,
    };
    this.#owned.set(claim, owned);
    return claim;
  }

  /** Writes that it runs here. False: it was ended, it is another node's, or nobody can be told. */
  async #mark(owned: OwnedRun): Promise<boolean> {
    const { delivery, token, begun } = owned;
    this.#unmarked.delete(delivery.run);
    const begin = async (now: RunEntry) => {
      if (hasEnded(now.run.status)) {
        delivery.done();
        return null;
      }
      // Somebody has written there since: a node that has taken the run, or one who wants it to end.
      const isAsItWas = now.revision === owned.entry.revision || now.claim === token;
      if (!isAsItWas && !(await owned.isLast())) return null;
      return { ...now, claim: token, wantedBy: null, run: { ...now.run, ...begun, status: 'running' as const } };
    };
    try {
      const marked = await this.change(delivery.run, begin, owned.entry);
      if (marked === null) owned.lose('it was cancelled, or another node has taken it');
      else owned.entry = marked;
      return marked !== null;
    } catch (error) {
      owned.lose(unreachable(error));
      return false;
    }
  }

  /** The message of a run that is parked. Somebody may have woken it while it was still there. */
  async #letGo(delivery: Delivery): Promise<null> {
    const { namespace, pool, run: id } = delivery;
    await patiently(this.#options.patienceMs, () => delivery.acknowledge(ANSWER_MS));
    const now = await this.entries.get(id);
    if (now?.run.status === 'queued') await this.work.publish(namespace, pool, id);
    return null;
  }
}
