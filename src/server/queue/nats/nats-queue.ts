import { hash } from 'node:crypto';
import type { JetStreamManager } from '@nats-io/jetstream';
import { headers, type NatsConnection } from '@nats-io/transport-node';
import { Listeners } from '../../../base/listeners.ts';
import { hasEnded, type RunRecord } from '../../records/run.ts';
import {
  type Claim,
  type Line,
  type ParkedFor,
  QueueError,
  type RunEnding,
  type RunMark,
  type RunQueue,
  type RunRelease,
} from '../run-queue.ts';
import { isForbidden, patiently } from './nats-errors.ts';
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

/** A queue in NATS JetStream, for many nodes: docs/cluster.md tells what is where. */
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
    const letGo = (delivery: Delivery) => this.#letGo(delivery);
    this.#claims = new RunClaims({ parts, leaseMs, entries, mirror, endings: this.#endings, change, letGo });
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
    const taken = await Promise.all(delivered.map((delivery) => this.#claims.take(node, delivery, hasRoom)));
    // A delivery that was not claimed leaves its slot free, and no pull is waiting for that slot.
    if (taken.includes(null)) this.#work.tell();
    return taken.flatMap((run) => {
      if (run === null) return [];
      this.#owned.set(run.claim, run.owned);
      return [run.claim];
    });
  }

  async renew(claim: Claim): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null) return false;
    // A node that does not answer in time may be asked again: the lease has a third of itself for that.
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
    // Of the claim: a release that failed is repeated.
    owned.attempt = owned.begun.attempts - (counts ? 0 : 1);
    const returned = { status: 'queued' as const, node: null, attempts: owned.attempt, status_reason: reason };
    if (!(await owned.append('released', JSON.stringify({ counts })))) return false;
    await this.change(claim.run.id, (now) =>
      now.claim === owned.token ? { ...now, claim: null, run: { ...now.run, ...returned } } : null,
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
    owned.attempt = owned.begun.attempts - 1;
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

  /** Falls back to a read for a user without the permission to publish. */
  protected override probe(): Promise<void> {
    return probeStorage(this.nc, this.#options.replicas).catch((error: unknown) => {
      if (!isForbidden(error)) throw error;
      return super.probe();
    });
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
    if (this.isClosed) throw new QueueError('closed', 'the node is shutting down');
    const owned = this.#owned.get(claim);
    if (owned === undefined || owned.lost.aborted) return null;
    const holder = this.mirror.claimOf(claim.run.id);
    if (holder === undefined || holder === owned.token) return owned;
    // Nobody was told of it yet.
    if (holder === null && owned.mark !== null) return owned;
    owned.lose('another node has claimed the run');
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

  /** The message of a run that is parked. Somebody may have woken it while it was still there. */
  async #letGo(delivery: Delivery): Promise<void> {
    const { namespace, pool, run: id } = delivery;
    await patiently(this.#options.patienceMs, () => delivery.acknowledge(ANSWER_MS));
    const now = await this.entries.get(id);
    if (now?.run.status === 'queued') await this.work.publish(namespace, pool, id);
  }
}

/** What tokens are spent for, counted by the servers: each addition is one step, whoever adds at the same time. */
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
    const found = await patiently(this.#patienceMs, () => this.#jsm.streams.getMessage(streams.tokens, query));
    return Number(found?.json<{ val: string }>().val ?? 0);
  }

  /**
   * The sum after it. One whose answer was lost may have been added: it is not added again, so that a budget is never
   * counted twice against its owner; it errs by one send at most.
   */
  async add(scope: string, day: string, tokens: number): Promise<number> {
    const step = headers();
    step.set('Nats-Incr', String(tokens));
    const answer = await this.#nc.request(subjectOf(scope, day), '', { headers: step, timeout: ANSWER_MS });
    const { val, error } = answer.json<{ val?: string; error?: { description: string } }>();
    if (val === undefined) throw new QueueError('not_stored', `tokens were not counted: ${error?.description}`);
    return Number(val);
  }

  /** Null: they are spent. Otherwise how many were, and nothing is. */
  async reserve(scope: string, day: string, tokens: number, limit: number): Promise<number | null> {
    const sum = await this.add(scope, day, tokens);
    if (sum <= limit) return null;
    await this.add(scope, day, -tokens);
    return sum - tokens;
  }
}

/** Scopes are words of people: their digest is a word of a subject. */
const subjectOf = (scope: string, day: string) =>
  `spear.budget.tokens.${word(day, 'the day')}.${hash('sha256', scope).slice(0, 32)}`;
