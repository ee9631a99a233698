import { hash } from 'node:crypto';
import type { NatsConnection } from '@nats-io/transport-node';
import { hasEnded, type RunRecord } from '../../records/run.ts';
import {
  type NewRun,
  QueueError,
  type QueueFacts,
  type RunChange,
  type RunFilter,
  type SubmittedRuns,
} from '../run-queue.ts';
import { EntryFeed } from './entry-feed.ts';
import { isOutOfStorage, retryTransient, withDeadline } from './nats-errors.ts';
import { type NatsParts, type OpenParts, openParts } from './nats-parts.ts';
import { checkAnswer, PROBE_MS, QueueHealth } from './queue-health.ts';
import { type EntryChange, newEntry, RunEntries, type RunEntry } from './run-entries.ts';
import { RunMirror } from './run-mirror.ts';
import { type StreamBounds, streams } from './streams.ts';
import { WorkMessages } from './work-messages.ts';

export interface NatsRunsOptions extends StreamBounds {
  /** How long transient errors are retried. */
  readonly patienceMs: number;
  /** Deadline of a submission. */
  readonly submitTimeoutMs: number;
}

const isKey = (id: string) => /^[A-Za-z0-9_-]+$/.test(id);

/**
 * Submission, listing and cancellation of runs in NATS JetStream: the part of the queue that a registry uses too.
 * {@link NatsQueue} adds claims. Lists and counts come from an in-memory mirror; single runs are read from the leader.
 * docs/cluster.md describes the streams.
 */
export class NatsRuns implements SubmittedRuns {
  readonly parts: NatsParts;
  protected readonly nc: NatsConnection;
  protected readonly entries: RunEntries;
  protected readonly mirror = new RunMirror();
  protected readonly work: WorkMessages;
  protected isClosed = false;
  readonly #feed: EntryFeed;
  readonly #submitTimeoutMs: number;
  /** Entries with the retry time of a submission. */
  readonly #newEntries: RunEntries;
  readonly #health: QueueHealth;

  protected constructor(nc: NatsConnection, { parts, kv }: OpenParts, submitTimeoutMs: number) {
    this.nc = nc;
    this.parts = parts;
    this.#feed = new EntryFeed(nc, parts.jsm, (update) => this.mirror.apply(update));
    this.entries = new RunEntries(kv, parts.patienceMs);
    this.work = new WorkMessages(parts, this.mirror);
    this.#submitTimeoutMs = submitTimeoutMs;
    this.#newEntries = new RunEntries(kv, submitTimeoutMs);
    this.#health = new QueueHealth(() => this.probe());
  }

  /** The result owns the connection. @throws Error if streams are configured differently */
  static async open(nc: NatsConnection, options: NatsRunsOptions): Promise<NatsRuns> {
    const runs = new NatsRuns(nc, await openParts(nc, options, options.patienceMs), options.submitTimeoutMs);
    return runs.opened();
  }

  async submit(run: NewRun): Promise<{ readonly run: RunRecord; readonly created: boolean }> {
    try {
      return await withDeadline(this.#submitTimeoutMs, this.#submit(run), () => this.#unavailable());
    } catch (error) {
      if (!isOutOfStorage(error)) throw error;
      throw new QueueError('not_stored', `NATS has no room for the run: ${error.message}`);
    }
  }

  async #submit(run: NewRun): Promise<{ readonly run: RunRecord; readonly created: boolean }> {
    const { id, namespace, pool, input } = run;
    const inputSha256 = hash('sha256', input);
    const { bodies } = this.parts;
    // The object of the input is named after the run: it must not overwrite the input of an existing run.
    const known = bodies.isLarge(input) ? await this.#newEntries.get(id) : null;
    if (known !== null) return this.#resubmit(known, inputSha256);
    const body = await bodies.store(id, 'input', input, this.#submitTimeoutMs);
    const made = newEntry(run, inputSha256, body);
    const entry = await this.#newEntries.create(made);
    if (entry === null) return this.#resubmit((await this.entries.get(id)) as RunEntry, inputSha256);
    const published = await this.work.publish(namespace, pool, id, entry);
    if (published === 'full') {
      await this.entries.remove(entry);
      throw new QueueError('full', 'the maximum number of queued and running runs is reached; try again later');
    }
    this.mirror.take(entry);
    return { run: entry.run, created: true };
  }

  async cancel(namespace: string, id: string): Promise<RunRecord | null> {
    const known = await this.found(namespace, id);
    if (known === null) return null;
    const exit = { reason: 'cancelled', code: null, message: 'the run was cancelled before it started' };
    const entry = await this.change(id, (now) => {
      if (hasEnded(now.run.status) || now.cancel) return null;
      if (now.run.status !== 'queued' && now.run.status !== 'parked') return { ...now, cancel: true };
      const ended = {
        status: 'cancelled',
        status_reason: null,
        exit,
        ended_at_ms: Date.now(),
        result_bytes: 0,
      } as const;
      return { ...now, cancel: true, parkedFor: null, run: { ...now.run, ...ended, ...{ parked_for: null } } };
    });
    return entry?.run ?? this.get(namespace, id);
  }

  async get(namespace: string, id: string): Promise<RunRecord | null> {
    return (await this.found(namespace, id))?.run ?? null;
  }

  async find(id: string): Promise<RunRecord | null> {
    return isKey(id) ? ((await this.#read(id))?.run ?? null) : null;
  }

  async list(namespace: string, filter: RunFilter) {
    return this.mirror.page(namespace, filter);
  }

  async input(id: string): Promise<Uint8Array | null> {
    const entry = await this.#read(id);
    return entry === null ? null : this.parts.bodies.read(entry.input);
  }

  async result(id: string): Promise<Uint8Array | null> {
    const body = (await this.#read(id))?.result ?? null;
    return body === null ? null : this.parts.bodies.read(body);
  }

  onChange(listener: (change: RunChange) => void): () => void {
    return this.mirror.onChange(listener);
  }

  facts(): QueueFacts {
    return this.mirror.facts(Date.now());
  }

  problem(): string | null {
    if (this.nc.isClosed()) return 'the connection to NATS is closed';
    const { problem } = this.#health;
    return problem === null ? null : `the run queue in NATS does not work: ${problem}`;
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.work.close();
    this.#health.close();
    this.#feed.stop();
    await this.nc.flush().catch(() => {});
    await this.nc.close();
  }

  /** @throws Error if the queue does not respond */
  protected async probe(): Promise<void> {
    await this.nc.request(`$JS.API.STREAM.INFO.${streams.runs}`, '', { timeout: PROBE_MS }).then(checkAnswer);
  }

  #unavailable(): QueueError {
    const known = this.problem();
    const why = known === null ? '' : ` (${known})`;
    return new QueueError('unavailable', `the run queue did not answer within ${this.#submitTimeoutMs} ms${why}`);
  }

  /** Resolves to this when the mirror has all existing runs. @throws QueueError after `patienceMs` */
  protected async opened(): Promise<this> {
    const { patienceMs } = this.parts;
    const why = `NATS did not list the runs within ${patienceMs} ms`;
    try {
      await withDeadline(patienceMs, this.#feed.ready, () => new QueueError('not_stored', why));
      return this;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** `known`: probable state of the entry. */
  protected async change(id: string, change: EntryChange, known: RunEntry | null = null): Promise<RunEntry | null> {
    const entry = await this.entries.change(id, change, known);
    if (entry !== null) this.mirror.take(entry);
    return entry;
  }

  protected async found(namespace: string, id: string): Promise<RunEntry | null> {
    if (!isKey(id)) return null;
    const entry = await this.#read(id);
    return entry?.run.namespace === namespace ? entry : null;
  }

  /** Reads at least the revision of the last notification: the replica that sent it may be ahead of the one that responds. */
  #read(id: string): Promise<RunEntry | null> {
    const ended = this.mirror.ended(id);
    if (ended !== null) return Promise.resolve(ended);
    return retryTransient(this.parts.patienceMs, async () => {
      const { entry, revision } = await this.entries.latest(id);
      if (revision >= this.mirror.revisionOf(id)) return entry;
      throw new Error(`the entry of run ${id} is older than its last notification`);
    });
  }

  /** Repeats a submission: the work message may be missing if the first one was interrupted. */
  async #resubmit({ run }: RunEntry, inputSha256: string) {
    if (run.input_sha256 !== inputSha256) {
      throw new QueueError('other_input', `the run ${run.id} was submitted with a different input`);
    }
    if (run.status === 'queued' && run.attempts === 0) await this.work.publish(run.namespace, run.pool, run.id);
    return { run, created: false };
  }
}
