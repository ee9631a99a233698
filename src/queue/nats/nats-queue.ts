import { hash } from 'node:crypto';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { Objm } from '@nats-io/obj';
import type { NatsConnection } from '@nats-io/transport-node';
import { hasEnded, type RunRecord } from '../../protocol/run.ts';
import {
  type Claim,
  type Line,
  type NewRun,
  type ParkedFor,
  QueueError,
  type QueueFacts,
  type RunChange,
  type RunEnding,
  type RunFilter,
  type RunQueue,
} from '../run-queue.ts';
import { Bodies, type Body } from './bodies.ts';
import { Deliveries, type Delivery } from './deliveries.ts';
import { type JournalMessage, lastMessage, objectsOf, parsed, readMessages } from './journal-messages.ts';
import { OwnedRun, type OwnedRunParts } from './owned-run.ts';
import { parkedEntry, wokenEntry } from './parked.ts';
import { patiently } from './patience.ts';
import { newEntry, RunEntries, type RunEntry, type StoredRun } from './run-entries.ts';
import { RunMirror } from './run-mirror.ts';
import { preparePool, prepareStreams, type StreamBounds } from './streams.ts';
import { deadSubject, journalSubject, OBJECTS_BUCKET, RUNS_BUCKET } from './subjects.ts';
import { TokenCounters } from './token-counters.ts';
import { WorkMessages } from './work-messages.ts';

export interface NatsQueueOptions extends StreamBounds {
  /** How long the servers may be out of reach before something is given up. */
  readonly patienceMs: number;
}

const FORGET_AT_ONCE = 200;
/** A line without room here may have some elsewhere. */
const NO_ROOM_MS = 1_000;
const ANSWER_MS = 5_000;

/** How a run ended, as its journal has it. */
interface Finished {
  readonly status: RunEnding['status'];
  readonly exit: RunEnding['exit'];
  readonly cost: RunEnding['cost'];
  readonly result: Body;
  readonly result_bytes: number;
  readonly ended_at_ms: number;
}

/** A queue in NATS JetStream, for many nodes: docs/cluster.md tells what is where. */
export class NatsQueue implements RunQueue {
  readonly isShared = true;
  readonly #nc: NatsConnection;
  readonly #options: NatsQueueOptions;
  readonly #parts: OwnedRunParts;
  readonly #entries: RunEntries;
  readonly #mirror = new RunMirror();
  readonly #pools = new Map<string, Promise<Deliveries>>();
  readonly #owned = new WeakMap<Claim, OwnedRun>();
  readonly #tokens: TokenCounters;
  readonly #work: WorkMessages;
  #isClosed = false;

  private constructor(nc: NatsConnection, options: NatsQueueOptions, parts: OwnedRunParts, entries: RunEntries) {
    this.#nc = nc;
    this.#options = options;
    this.#parts = parts;
    this.#entries = entries;
    this.#tokens = new TokenCounters(nc, parts.jsm, options.patienceMs);
    this.#work = new WorkMessages(parts, this.#mirror);
  }

  /** Closes the connection when it is closed. @throws Error where streams are not as they must be */
  static async open(nc: NatsConnection, options: NatsQueueOptions): Promise<NatsQueue> {
    const { replicas, patienceMs, leaseMs } = options;
    const prepare = async () => {
      const jsm = await jetstreamManager(nc);
      const js = jetstream(nc);
      await prepareStreams(jsm, options);
      // Entries are read from the leader alone: what a copy has may be old.
      const kv = await new Kvm(js).create(RUNS_BUCKET, { replicas, history: 1, allow_direct: false });
      const objects = await new Objm(js).create(OBJECTS_BUCKET, { replicas });
      return { jsm, js, kv, objects };
    };
    const { jsm, js, kv, objects } = await patiently(patienceMs, prepare);
    const bodies = new Bodies(objects, patienceMs);
    const parts = { js, jsm, bodies, leaseMs, patienceMs };
    const queue = new NatsQueue(nc, options, parts, new RunEntries(kv, patienceMs));
    await queue.#mirror.follow(kv, nc, patienceMs);
    return queue;
  }

  async submit(run: NewRun): Promise<{ readonly run: RunRecord; readonly created: boolean }> {
    const { id, namespace, pool, input } = run;
    const inputSha256 = hash('sha256', input);
    const { bodies } = this.#parts;
    // An object has the name of its run: it must not be written for one that has another input.
    const known = bodies.isLarge(input) ? await this.#entries.get(id) : null;
    if (known !== null) return this.#again(known, inputSha256);
    const body = await bodies.keep(id, 'input', input);
    const made = newEntry(run, inputSha256, body);
    const entry = await this.#entries.create(made);
    if (entry === null) return this.#again((await this.#entries.get(id)) as RunEntry, inputSha256);
    const published = await this.#work.publish(namespace, pool, id);
    if (published === 'full') {
      await this.#entries.remove(entry);
      throw new QueueError('full', `${this.#options.maxRuns} runs wait or run already; try again later`);
    }
    this.#mirror.take(entry);
    return { run: entry.run, created: true };
  }

  async claim(
    node: string,
    pool: string,
    max: number,
    _leaseMs: number,
    hasRoom: (line: Line) => boolean,
  ): Promise<readonly Claim[]> {
    const deliveries = await this.#pool(pool);
    const claims = await Promise.all(
      deliveries.take(max).map(async (delivery) => {
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
    if (owned === null) return false;
    const mark = (now: RunEntry) =>
      now.claim === owned.token && !hasEnded(now.run.status) ? { ...now, run: { ...now.run, status } } : null;
    const entry = await this.#change(claim.run.id, mark, owned.entry);
    owned.entry = entry ?? owned.entry;
    return entry !== null;
  }

  async finish(claim: Claim, { status, exit, cost, result }: RunEnding): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null) return false;
    const { id, namespace } = claim.run;
    await owned.settled();
    const kept = await this.#parts.bodies.keep(id, 'result', result);
    const finished: Finished = {
      status,
      exit,
      cost,
      result: kept,
      result_bytes: result.byteLength,
      ended_at_ms: Date.now(),
    };
    if (!(await owned.append('finished', JSON.stringify(finished)))) return false;
    if (status === 'dead') await this.#bury(namespace, id, claim.run, finished);
    await this.#end(owned.delivery, finished, owned.objects, owned.entry);
    this.#owned.delete(claim);
    return true;
  }

  async release(claim: Claim, counts: boolean): Promise<boolean> {
    const owned = this.#ownedBy(claim);
    if (owned === null) return false;
    await owned.settled();
    if (!counts) owned.attempt -= 1;
    const { attempt } = owned;
    if (!(await owned.append('released', JSON.stringify({ counts })))) return false;
    await this.#change(claim.run.id, (now) =>
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
    if (owned === null) return false;
    await owned.settled();
    owned.attempt -= 1;
    const { token, attempt, delivery } = owned;
    if (!(await owned.append('parked', JSON.stringify(until)))) return false;
    const entry = await this.#change(claim.run.id, (now) => parkedEntry(now, token, attempt, until));
    this.#owned.delete(claim);
    if (entry?.run.status === 'queued') {
      await patiently(this.#options.patienceMs, () => delivery.giveBackFirst(ANSWER_MS));
      return true;
    }
    await this.#letGo(delivery);
    return true;
  }

  async wake(namespace: string, id: string): Promise<boolean> {
    const known = await this.#found(namespace, id);
    if (known?.run.status !== 'parked') return false;
    const woken = await this.#change(id, wokenEntry);
    if (woken === null) return false;
    // Where there is no room for its message now, it is published when there is.
    await this.#work.publish(namespace, woken.run.pool, id);
    return true;
  }

  async parked(pool: string, cursor: string | null, limit: number) {
    return this.#mirror.parked(pool, cursor, limit);
  }

  async cancel(namespace: string, id: string): Promise<RunRecord | null> {
    const known = await this.#found(namespace, id);
    if (known === null) return null;
    const exit = { reason: 'cancelled', code: null, message: 'it was cancelled before it began' };
    const entry = await this.#change(id, (now) => {
      if (hasEnded(now.run.status) || now.cancel) return null;
      if (now.run.status !== 'queued' && now.run.status !== 'parked') return { ...now, cancel: true };
      const ended = { status: 'cancelled', exit, ended_at_ms: Date.now(), result_bytes: 0 } as const;
      return { ...now, cancel: true, parkedFor: null, run: { ...now.run, ...ended, ...{ parked_for: null } } };
    });
    return entry?.run ?? this.get(namespace, id);
  }

  async get(namespace: string, id: string): Promise<RunRecord | null> {
    return (await this.#found(namespace, id))?.run ?? null;
  }

  async list(namespace: string, filter: RunFilter) {
    return this.#mirror.page(namespace, filter);
  }

  async input(id: string): Promise<Uint8Array | null> {
    const entry = await this.#read(id);
    return entry === null ? null : this.#parts.bodies.read(entry.input);
  }

  async result(id: string): Promise<Uint8Array | null> {
    const body = (await this.#read(id))?.result ?? null;
    return body === null ? null : this.#parts.bodies.read(body);
  }

  async forget(endedBefore: number): Promise<readonly RunRecord[]> {
    const gone: RunRecord[] = [];
    for (const id of this.#mirror.endedBefore(endedBefore, FORGET_AT_ONCE)) {
      const entry = await this.#entries.get(id);
      if (entry === null || !(await this.#entries.remove(entry))) continue;
      this.#mirror.forget(id, entry.revision + 1);
      await this.#parts.bodies.remove(entry.objects);
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

  onChange(listener: (change: RunChange) => void): () => void {
    return this.#mirror.onChange(listener);
  }

  facts(): QueueFacts {
    return this.#mirror.facts(Date.now());
  }

  problem(): string | null {
    if (this.#nc.isClosed()) return 'the connection to NATS is closed';
    return null;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#work.close();
    this.#mirror.stop();
    for (const pool of this.#pools.values()) (await pool.catch(() => null))?.close();
    await this.#nc.flush().catch(() => {});
    await this.#nc.close();
  }

  /** The run behind a claim, for its journal and its events; null: it is not this node's. */
  owned(claim: Claim): OwnedRun | null {
    return this.#owned.get(claim) ?? null;
  }

  get parts(): OwnedRunParts {
    return this.#parts;
  }

  #ownedBy(claim: Claim): OwnedRun | null {
    if (this.#isClosed) throw new QueueError('closed', 'the node is ending');
    const owned = this.#owned.get(claim);
    if (owned === undefined || owned.lost.aborted) return null;
    const holder = this.#mirror.claimOf(claim.run.id);
    if (holder === undefined || holder === owned.token) return owned;
    owned.lose('another node has taken it');
    return null;
  }

  #pool(pool: string): Promise<Deliveries> {
    const open = async () => {
      const { jsm, patienceMs } = this.#parts;
      const name = await patiently(patienceMs, () => preparePool(jsm, pool, this.#options));
      return new Deliveries(this.#nc, name, (run) => this.#mirror.announce(run));
    };
    const known = this.#pools.get(pool) ?? open();
    this.#pools.set(pool, known);
    known.catch(() => this.#pools.delete(pool));
    return known;
  }

  /** Null: there is nothing to do about it here. */
  async #claim(node: string, delivery: Delivery, hasRoom: (line: Line) => boolean): Promise<Claim | null> {
    const { namespace, run: id } = delivery;
    const { jsm, patienceMs } = this.#parts;
    const journal = journalSubject(namespace, id);
    const [entry, last] = await Promise.all([
      this.#entries.get(id),
      patiently(patienceMs, () => lastMessage(jsm, journal)),
    ]);
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
    if (last?.kind === 'finished') return this.#finishAgain(delivery, last);
    const { task, submitted_by: submittedBy } = entry.run;
    if (!hasRoom({ namespace, task, submittedBy })) {
      delivery.giveBack(NO_ROOM_MS);
      return null;
    }
    const owned = new OwnedRun(delivery, entry, last, this.#parts);
    if (!(await owned.append('claim', JSON.stringify({ node, at: Date.now() })))) return null;
    return this.#begin(node, owned);
  }

  async #begin(node: string, owned: OwnedRun): Promise<Claim | null> {
    const { delivery, token, attempt } = owned;
    const begin = (now: RunEntry) => {
      if (hasEnded(now.run.status)) return null;
      const running = { status: 'running', attempts: attempt, node, started_at_ms: Date.now() } as const;
      return { ...now, claim: token, run: { ...now.run, ...running } };
    };
    const begun = await this.#change(delivery.run, begin, owned.entry);
    if (begun === null) {
      await delivery.acknowledge(ANSWER_MS); // it was cancelled meanwhile
      return null;
    }
    owned.entry = begun;
    const claim = { run: begun.run, attempt, isCancelled: begun.cancel, lost: owned.lost };
    this.#owned.set(claim, owned);
    return claim;
  }

  /** The message of a run that is parked. Somebody may have woken it while it was still there. */
  async #letGo(delivery: Delivery): Promise<null> {
    const { namespace, pool, run: id } = delivery;
    await patiently(this.#options.patienceMs, () => delivery.acknowledge(ANSWER_MS));
    const now = await this.#entries.get(id);
    if (now?.run.status === 'queued') await this.#work.publish(namespace, pool, id);
    return null;
  }

  /** It has ended, and whoever ended it did not come to say so. */
  async #finishAgain(delivery: Delivery, last: JournalMessage): Promise<null> {
    const { jsm, patienceMs } = this.#parts;
    const messages = await readMessages(jsm, journalSubject(delivery.namespace, delivery.run), last.seq, patienceMs);
    const finished = parsed<Finished>(last);
    if (finished.status === 'dead') await this.#bury(delivery.namespace, delivery.run, null, finished);
    await this.#end(delivery, finished, objectsOf(messages));
    return null;
  }

  /** Result and status, then the message: whoever is cut off in between is followed by somebody who does it again. */
  async #end(
    delivery: Delivery,
    finished: Finished,
    objects: readonly string[],
    known: RunEntry | null = null,
  ): Promise<void> {
    const { status, exit, cost, result, result_bytes, ended_at_ms } = finished;
    const end = (now: RunEntry) => {
      if (hasEnded(now.run.status)) return null;
      const all = [...now.objects, ...objects, ...('object' in result ? [result.object] : [])];
      const run = { ...now.run, status, exit, cost, result_bytes, ended_at_ms };
      return { ...now, claim: null, result, objects: [...new Set(all)], run };
    };
    await this.#change(delivery.run, end, known);
    const close = () => (status === 'dead' ? delivery.terminate(ANSWER_MS) : delivery.acknowledge(ANSWER_MS));
    await patiently(this.#options.patienceMs, close);
  }

  async #bury(namespace: string, id: string, run: RunRecord | null, { exit }: Finished): Promise<void> {
    const letter = JSON.stringify({ run: run ?? { id, namespace }, exit });
    await patiently(this.#options.patienceMs, () => this.#parts.js.publish(deadSubject(namespace, id), letter));
  }

  async #change(
    id: string,
    change: (entry: RunEntry) => StoredRun | null,
    known: RunEntry | null = null,
  ): Promise<RunEntry | null> {
    const entry = await this.#entries.change(id, change, known);
    if (entry !== null) this.#mirror.take(entry);
    return entry;
  }

  async #found(namespace: string, id: string): Promise<RunEntry | null> {
    if (!/^[A-Za-z0-9_-]+$/.test(id)) return null;
    const entry = await this.#read(id);
    return entry?.run.namespace === namespace ? entry : null;
  }

  /** Whoever was told of a change finds it: the copy that told of it may be ahead of the one that is asked. */
  #read(id: string): Promise<RunEntry | null> {
    return patiently(this.#options.patienceMs, async () => {
      const entry = await this.#entries.get(id);
      if ((entry?.revision ?? 0) >= this.#mirror.revisionOf(id)) return entry;
      throw new Error(`the entry of ${id} is behind what was told of it`);
    });
  }

  /** It was submitted before. Its message may be missing: its submitter may have been cut off. */
  async #again({ run }: RunEntry, inputSha256: string) {
    if (run.input_sha256 !== inputSha256) {
      throw new QueueError('other_input', `the run ${run.id} was submitted with another input`);
    }
    if (run.status === 'queued' && run.attempts === 0) await this.#work.publish(run.namespace, run.pool, run.id);
    return { run, created: false };
  }
}
