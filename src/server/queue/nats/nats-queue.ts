import { hash } from 'node:crypto';
import type { JetStreamManager } from '@nats-io/jetstream';
import { headers, type NatsConnection } from '@nats-io/transport-node';
import { Listeners } from '../../../base/listeners.ts';
import { hasEnded, type RunRecord } from '../../records/run.ts';
import {
  type Claim,
  type ParkedFor,
  QueueError,
  type QueueKey,
  type RunEnding,
  type RunMark,
  type RunQueue,
  type RunRelease,
} from '../run-queue.ts';
import { isForbidden, retryTransient } from './nats-errors.ts';
import { type OpenParts, openParts } from './nats-parts.ts';
import { NatsRuns, type NatsRunsOptions } from './nats-runs.ts';
import type { OwnedRun } from './owned-run.ts';
import { probeStorage } from './queue-health.ts';
import { RunClaims } from './run-claims.ts';
import { RunEndings } from './run-endings.ts';
import { type ChangeEntry, parkedEntry, type RunEntry, wokenEntry } from './run-entries.ts';
import { preparePool, streams, word } from './streams.ts';
import { Deliveries, type Delivery } from './work-messages.ts';

export interface NatsQueueOptions extends NatsRunsOptions {
  readonly leaseMs: number;
}

const FORGET_AT_ONCE = 200;
const ANSWER_MS = 5_000;

/**
 * Run queue in NATS JetStream, shared by the nodes of a cluster. docs/cluster.md describes its streams.
 *
 * - A run has an entry (what users see), at most one work message while it is queued or runs, and a journal subject.
 * - The last writer of the journal subject owns the run: every state change is appended there first, then written to the
 *   entry, then the work message is acknowledged or returned. Every step is idempotent, and the next node that receives
 *   the message completes what was interrupted.
 * - One process has one queue; its methods may run concurrently for different claims.
 */
export class NatsQueue extends NatsRuns implements RunQueue {
  readonly isShared = true;
  readonly #options: NatsQueueOptions;
  readonly #pools = new Map<string, Promise<Deliveries>>();
  readonly #owned = new WeakMap<Claim, OwnedRun>();
  readonly #work = new Listeners<void>();
  readonly #tokens: TokenCounters;
  readonly #endings: RunEndings;
  readonly #claims: RunClaims;

  protected constructor(nc: NatsConnection, options: NatsQueueOptions, open: OpenParts) {
    super(nc, open, options.submitTimeoutMs);
    this.#options = options;
    this.#tokens = new TokenCounters(nc, this.parts.jsm, options.patienceMs);
    const { parts, entries, mirror } = this;
    const change: ChangeEntry = (id, of, known) => this.change(id, of, known);
    const { leaseMs } = options;
    this.#endings = new RunEndings(parts, change);
    const unpublish = (delivery: Delivery) => this.#unpublish(delivery);
    this.#claims = new RunClaims({ parts, leaseMs, entries, mirror, endings: this.#endings, change, unpublish });
  }

  /** The queue owns the connection. @throws Error if streams are configured differently */
  static override async open(nc: NatsConnection, options: NatsQueueOptions): Promise<NatsQueue> {
    return new NatsQueue(nc, options, await openParts(nc, options, options.patienceMs)).opened();
  }

  /** Notifies of delivered runs only: the server assigns runs to pending pulls, and a queued run may go to another node. */
  onWork(listener: () => void): () => void {
    return this.#work.add(listener);
  }

  async claim(
    node: string,
    pool: string,
    max: number,
    _leaseMs: number,
    hasRoom: (line: QueueKey) => boolean,
  ): Promise<readonly Claim[]> {
    const delivered = (await this.#pool(pool)).take(max);
    const claimed = await Promise.all(delivered.map((delivery) => this.#claims.take(node, delivery, hasRoom)));
    // A delivery that was not claimed leaves its slot free, and no pull is waiting for that slot.
    if (claimed.includes(null)) this.#work.notify();
    return claimed.flatMap((run) => {
      if (run === null) return [];
      this.#owned.set(run.claim, run.owned);
      return [run.claim];
    });
  }

  async renew(claim: Claim): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null) return false;
    // A renewal without response is repeated by the next one: the dispatcher renews three times per lease.
    await owned.renew().catch(() => {});
    return !owned.lost.aborted;
  }

  async mark(claim: Claim, { status, reason = null, degraded }: RunMark): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null || !(await owned.isMarked())) return false;
    const marked = { status, status_reason: reason, ...(degraded === undefined ? {} : { degraded: [...degraded] }) };
    const mark = (now: RunEntry) =>
      now.claim === owned.token && !hasEnded(now.run.status) ? { ...now, run: { ...now.run, ...marked } } : null;
    const entry = await this.change(claim.run.id, mark, owned.entry);
    owned.entry = entry ?? owned.entry;
    return entry !== null;
  }

  async finish(claim: Claim, ending: RunEnding): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null || !(await this.#endings.write(owned, claim.run, ending))) return false;
    this.#owned.delete(claim);
    return true;
  }

  async release(claim: Claim, { counts, reason = null }: RunRelease): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null || !(await owned.isMarked())) return false;
    await owned.settled();
    // Computed from the claim, because a failed release is repeated.
    owned.attempt = owned.begun.attempts - (counts ? 0 : 1);
    const returned = { status: 'queued' as const, node: null, attempts: owned.attempt, status_reason: reason };
    if (!(await owned.append('released', JSON.stringify({ counts })))) return false;
    await this.change(claim.run.id, (now) =>
      now.claim === owned.token ? { ...now, claim: null, run: { ...now.run, ...returned } } : null,
    );
    await retryTransient(this.#options.patienceMs, () => owned.delivery.returnFirst(ANSWER_MS));
    this.#owned.delete(claim);
    return true;
  }

  /** Writes the entry before it acknowledges the message; a wake in between publishes the message again. */
  async park(claim: Claim, until: ParkedFor): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null || !(await owned.isMarked())) return false;
    await owned.settled();
    owned.attempt = owned.begun.attempts - 1;
    const { token, attempt, delivery } = owned;
    if (!(await owned.append('parked', JSON.stringify(until)))) return false;
    const entry = await this.change(claim.run.id, (now) => parkedEntry(now, token, attempt, until));
    this.#owned.delete(claim);
    if (entry?.run.status === 'queued') {
      await retryTransient(this.#options.patienceMs, () => delivery.returnFirst(ANSWER_MS));
      return true;
    }
    await this.#unpublish(delivery);
    return true;
  }

  async wake(namespace: string, id: string, wantedBy: string | null = null): Promise<boolean> {
    const known = await this.found(namespace, id);
    if (known?.run.status !== 'parked') return false;
    const woken = await this.change(id, (now) => wokenEntry(now, wantedBy));
    if (woken === null) return false;
    // If the stream is full now, the message is published later.
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

  /** Falls back to a read for a user without the permission to publish. */
  protected override probe(): Promise<void> {
    return probeStorage(this.nc, this.#options.replicas).catch((error: unknown) => {
      if (!isForbidden(error)) throw error;
      return super.probe();
    });
  }

  /** Publishes without acknowledgement. */
  publish(subject: string, text: string): void {
    if (!this.nc.isClosed()) this.nc.publish(subject, text);
  }

  /** The owned run of a claim, for its journal and its events; null: not owned any more. */
  owned(claim: Claim): OwnedRun | null {
    return this.#owned.get(claim) ?? null;
  }

  #ownedBy(claim: Claim): OwnedRun | null {
    if (this.isClosed) throw new QueueError('closed', 'the node is shutting down');
    const owned = this.#owned.get(claim);
    if (owned === undefined || owned.lost.aborted) return null;
    const holder = this.mirror.claimOf(claim.run.id);
    if (holder === undefined || holder === owned.token) return owned;
    // The claim is not in the entry yet.
    if (holder === null && owned.mark !== null) return owned;
    owned.lose('another node has claimed the run');
    return null;
  }

  #pool(pool: string): Promise<Deliveries> {
    const open = async () => {
      const { jsm, patienceMs } = this.parts;
      const name = await retryTransient(patienceMs, () => preparePool(jsm, pool, this.#options));
      return new Deliveries(this.nc, name, () => this.#work.notify());
    };
    const known = this.#pools.get(pool) ?? open();
    this.#pools.set(pool, known);
    known.catch(() => this.#pools.delete(pool));
    return known;
  }

  /** Acknowledges the work message of a parked run, and publishes a new one if the run was woken meanwhile. */
  async #unpublish(delivery: Delivery): Promise<void> {
    const { namespace, pool, run: id } = delivery;
    await retryTransient(this.#options.patienceMs, () => delivery.acknowledge(ANSWER_MS));
    const now = await this.entries.get(id);
    if (now?.run.status === 'queued') await this.work.publish(namespace, pool, id);
  }
}

/** Counters of spent tokens, held by the servers. Additions are atomic. */
export class TokenCounters {
  readonly #nc: NatsConnection;
  readonly #jsm: JetStreamManager;
  readonly #patienceMs: number;

  constructor(nc: NatsConnection, jsm: JetStreamManager, patienceMs: number) {
    this.#nc = nc;
    this.#jsm = jsm;
    this.#patienceMs = patienceMs;
  }

  async spent(scope: string, day: string): Promise<number> {
    const query = { last_by_subj: subjectOf(scope, day) };
    const found = await retryTransient(this.#patienceMs, () => this.#jsm.streams.getMessage(streams.tokens, query));
    return Number(found?.json<{ val: string }>().val ?? 0);
  }

  /**
   * Returns the new sum. An addition whose response was lost is not repeated, because it may have been counted; the error
   * is one send at most.
   */
  async add(scope: string, day: string, tokens: number): Promise<number> {
    const step = headers();
    step.set('Nats-Incr', String(tokens));
    const answer = await this.#nc.request(subjectOf(scope, day), '', { headers: step, timeout: ANSWER_MS });
    const { val, error } = answer.json<{ val?: string; error?: { description: string } }>();
    if (val === undefined) throw new QueueError('not_stored', `tokens were not counted: ${error?.description}`);
    return Number(val);
  }

  /** Null: the tokens fit, and are spent. Otherwise the number spent before, and nothing is spent. */
  async reserve(scope: string, day: string, tokens: number, limit: number): Promise<number | null> {
    const sum = await this.add(scope, day, tokens);
    if (sum <= limit) return null;
    await this.add(scope, day, -tokens);
    return sum - tokens;
  }
}

/** Scopes contain user input, so the subject has their digest. */
const subjectOf = (scope: string, day: string) =>
  `spear.budget.tokens.${word(day, 'the day')}.${hash('sha256', scope).slice(0, 32)}`;
