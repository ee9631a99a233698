import { hash } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { Listeners } from '../../../base/listeners.ts';
import { copyDatabase, namingDamage, noSpace, openExclusively } from '../../../base/sqlite-file.ts';
import { hasEnded, type RunRecord, type RunStatus, runStatuses } from '../../records/run.ts';
import {
  type Claim,
  type NewRun,
  type ParkedFor,
  type ParkedPage,
  QueueError,
  type QueueFacts,
  type QueueKey,
  type RunChange,
  type RunEnding,
  type RunFilter,
  type RunMark,
  type RunQueue,
  type RunRelease,
} from '../run-queue.ts';
import { Commits } from './commits.ts';
import { FairQueue } from './fair-queue.ts';
import { type RunRow, RunTable, toRecord } from './run-table.ts';
import { prepareSchema } from './schema.ts';

export interface EmbeddedQueueOptions {
  readonly maxQueued: number;
  /** @default Date.now */
  readonly now?: () => number;
}

/** Runs that one call of `forget` removes. */
const FORGET_AT_ONCE = 500;
const REMEDY =
  'stop the node, then restore a backup with "spearlet restore FILE"; without a backup, move the file away: the node starts with an empty queue, and runs that had not ended are lost';
const cancelled = (message: string) => JSON.stringify({ reason: 'cancelled', code: null, message });
const CANCELLED_QUEUED = cancelled('the run was cancelled before it started');
const CANCELLED_PARKED = cancelled('the run was cancelled while parked');

/**
 * Run queue of a single node: a SQLite file that this process opens exclusively, and an in-memory index of the queued runs.
 *
 * - Reads are synchronous; writes go through {@link Commits}, which groups them. Memory (index, counts, leases) is changed
 *   only after the write was committed, so a failed write changes nothing.
 * - Every transition names the attempt it belongs to. A claim whose lease expired fails its next transition.
 * - Leases exist in memory only: after a restart all claimed runs are queued again.
 */
export class EmbeddedQueue implements RunQueue {
  readonly isShared = false;
  readonly #db: DatabaseSync;
  readonly #table: RunTable;
  readonly #commits: Commits;
  readonly #queued = new FairQueue();
  /** Leases of claimed runs, by id. */
  readonly #leases = new Map<string, { readonly attempt: number; readonly until: number }>();
  readonly #changes = new Listeners<RunChange>();
  readonly #counts: Record<RunStatus, number>;
  readonly #path: string;
  readonly #epoch: string;
  readonly #maxQueued: number;
  readonly #now: () => number;
  /** Submissions that are not committed yet. */
  #arriving = 0;

  /** @throws DatabaseInUse, Error */
  constructor(path: string, { maxQueued, now = Date.now }: EmbeddedQueueOptions) {
    this.#path = path;
    this.#maxQueued = maxQueued;
    this.#now = now;
    this.#db = this.#reading(() => openExclusively(path));
    try {
      const { table, epoch, found, queued } = this.#reading(() => readQueue(this.#db, path));
      this.#table = table;
      this.#epoch = epoch;
      this.#counts = Object.fromEntries(runStatuses.map((status) => [status, found.get(status) ?? 0])) as Record<
        RunStatus,
        number
      >;
      for (const row of queued) this.#enqueue(row, 'tail');
    } catch (error) {
      this.#db.close();
      throw error;
    }
    this.#commits = new Commits(this.#db, path);
  }

  async submit(run: NewRun): Promise<{ readonly run: RunRecord; readonly created: boolean }> {
    const inputSha256 = hash('sha256', run.input);
    const known = this.#table.find(run.id);
    if (known !== null) return { run: sameInput(known, inputSha256), created: false };
    if (this.#queued.size + this.#arriving >= this.#maxQueued) {
      throw new QueueError('full', `${this.#maxQueued} runs are already queued; try again later`);
    }
    this.#arriving += 1;
    try {
      const { row, created } = await this.#commits.run(() => {
        const twin = this.#table.find(run.id);
        if (twin !== null) return { row: twin, created: false };
        this.#table.insert(run, inputSha256, this.#now());
        return { row: this.#table.find(run.id) as RunRow, created: true };
      });
      if (!created) return { run: sameInput(row, inputSha256), created };
      this.#counts.queued += 1;
      this.#enqueue(row, 'tail');
      this.#notify(row);
      return { run: toRecord(row), created };
    } finally {
      this.#arriving -= 1;
    }
  }

  async claim(
    node: string,
    pool: string,
    max: number,
    leaseMs: number,
    hasRoom: (key: QueueKey) => boolean,
  ): Promise<readonly Claim[]> {
    await this.#releaseExpired();
    const next = this.#queued.take(pool, max, hasRoom);
    if (next.length === 0) return [];
    const begin = () => next.map(({ seq }) => this.#table.begin(seq, node, this.#now()));
    const rows = await this.#commits.runPromptly(begin).catch((error: unknown) => {
      // The runs are still queued.
      for (const { id } of next.toReversed()) {
        const row = this.#table.find(id);
        if (row?.status === 'queued') this.#enqueue(row, 'head');
      }
      throw error;
    });
    return rows.flatMap((row) => {
      if (row === null) return [];
      this.#leases.set(row.id, { attempt: row.attempts, until: this.#now() + leaseMs });
      this.#moved('queued', row);
      // Read again: a cancellation in the same commit had no listener yet.
      const isCancelled = this.#table.find(row.id)?.cancel === 1;
      const input = async () => (await this.input(row.id)) ?? new Uint8Array();
      const isRestored = (row.epoch ?? '') !== this.#epoch;
      return [{ run: toRecord(row), attempt: row.attempts, isCancelled, isRestored, input }];
    });
  }

  async renew({ run, attempt }: Claim, leaseMs: number): Promise<boolean> {
    if (this.#leases.get(run.id)?.attempt !== attempt) return false;
    this.#leases.set(run.id, { attempt, until: this.#now() + leaseMs });
    return true;
  }

  async mark({ run, attempt }: Claim, mark: RunMark): Promise<boolean> {
    return (await this.#transition('runPromptly', run.id, () => this.#table.mark(run.id, attempt, mark))) !== null;
  }

  async finish({ run, attempt }: Claim, ending: RunEnding): Promise<boolean> {
    const finish = () => this.#table.finish(run.id, attempt, ending, this.#now());
    return (await this.#transition('run', run.id, finish)) !== null;
  }

  release({ run, attempt }: Claim, release: RunRelease): Promise<boolean> {
    return this.#release(run.id, attempt, release);
  }

  async park({ run, attempt }: Claim, until: ParkedFor): Promise<boolean> {
    return (await this.#transition('runPromptly', run.id, () => this.#table.park(run.id, attempt, until))) !== null;
  }

  async wake(namespace: string, id: string): Promise<boolean> {
    // Decisions arrive for runs that are not parked, too: no commit for those.
    if (this.#table.find(id)?.status !== 'parked') return false;
    return (await this.#transition('runPromptly', id, () => this.#table.wake(namespace, id))) !== null;
  }

  async parked(pool: string, cursor: string | null, limit: number): Promise<ParkedPage> {
    const rows = this.#reading(() => this.#table.parked(pool, cursor === null ? 0 : Number(cursor), limit));
    const last = rows.length < limit ? undefined : rows.at(-1);
    return { runs: rows.map(({ run }) => run), cursor: last === undefined ? null : String(last.seq) };
  }

  async cancel(namespace: string, id: string): Promise<RunRecord | null> {
    const known = this.#table.find(id);
    if (known?.namespace !== namespace) return null;
    const row = await this.#transition('run', id, (status) =>
      this.#table.cancel(id, status === 'parked' ? CANCELLED_PARKED : CANCELLED_QUEUED, this.#now()),
    );
    return row === null ? this.get(namespace, id) : toRecord(row); // null: it has ended
  }

  async get(namespace: string, id: string): Promise<RunRecord | null> {
    const run = await this.find(id);
    return run?.namespace === namespace ? run : null;
  }

  async find(id: string): Promise<RunRecord | null> {
    const row = this.#reading(() => this.#table.shown(id));
    return row === null ? null : toRecord(row);
  }

  async list(namespace: string, filter: RunFilter) {
    const before = filter.cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(filter.cursor);
    const rows = this.#reading(() => this.#table.page(namespace, { ...filter, limit: filter.limit + 1 }, before));
    const shown = rows.slice(0, filter.limit);
    const last = rows.length > shown.length ? shown.at(-1) : undefined;
    return { runs: shown.map(toRecord), cursor: last === undefined ? null : String(last.seq) };
  }

  async input(id: string): Promise<Uint8Array | null> {
    return this.#reading(() => this.#table.body('inputs', id));
  }

  async result(id: string): Promise<Uint8Array | null> {
    return this.#reading(() => this.#table.body('results', id));
  }

  async forget(endedBefore: number): Promise<readonly RunRecord[]> {
    const gone = await this.#commits.run(() => this.#table.forget(endedBefore, FORGET_AT_ONCE));
    for (const { status } of gone) this.#counts[status] -= 1;
    return gone;
  }

  async spent(scope: string, day: string): Promise<number> {
    return this.#reading(() => this.#table.spent(scope, day));
  }

  async spend(scope: string, day: string, tokens: number): Promise<void> {
    await this.#commits.run(() => this.#table.spend(scope, day, tokens));
  }

  onChange(listener: (change: RunChange) => void): () => void {
    return this.#changes.add(listener);
  }

  onWork(listener: () => void): () => void {
    return this.#changes.add(({ status }) => {
      if (status === 'queued') listener();
    });
  }

  facts(): QueueFacts {
    const oldest = this.#queued.oldest();
    return {
      byStatus: { ...this.#counts },
      oldestQueuedMs: oldest === null ? null : Math.max(0, this.#now() - oldest),
    };
  }

  problem(): string | null {
    return this.#commits.problem() ?? noSpace(this.#path);
  }

  /** Writes a consistent copy of the file to `path` while the queue is in use. */
  backup(path: string): Promise<void> {
    return copyDatabase(this.#db, path);
  }

  async close(): Promise<void> {
    this.#commits.close();
    if (this.#db.isOpen) this.#db.close();
  }

  /** A node that does not renew its lease loses its runs. */
  async #releaseExpired(): Promise<void> {
    const now = this.#now();
    const expired = [...this.#leases].filter(([, { until }]) => until <= now);
    for (const [id, { attempt }] of expired) {
      await this.#release(id, attempt, { counts: true, reason: 'the lease of its node expired' });
      this.#leases.delete(id);
    }
  }

  async #release(id: string, attempt: number, release: RunRelease): Promise<boolean> {
    return (await this.#transition('runPromptly', id, () => this.#table.release(id, attempt, release))) !== null;
  }

  /** Commits one transition, then updates index, leases and counts, and notifies. Null: the guard of the transition failed. */
  async #transition(
    commit: 'run' | 'runPromptly',
    id: string,
    change: (before: RunStatus | undefined) => RunRow | null,
  ): Promise<RunRow | null> {
    const { row, before } = await this.#commits[commit](() => {
      const before = this.#table.find(id)?.status;
      return { before, row: change(before) };
    });
    if (row === null || before === undefined) return null;
    const isClaimed = row.status === 'running' || row.status === 'waiting';
    if (!isClaimed) this.#leases.delete(id);
    if (row.status === 'queued') this.#enqueue(row, 'head');
    else this.#queued.remove(row.seq);
    this.#moved(before, row);
    return row;
  }

  #reading<T>(read: () => T): T {
    return namingDamage(this.#path, REMEDY, read);
  }

  #enqueue(row: RunRow, where: 'head' | 'tail'): void {
    const { namespace, task, submitted_by: submittedBy, seq, id, submitted_at_ms: since } = row;
    this.#queued.add(row.pool, { namespace, task, submittedBy }, { seq, id, since }, where);
  }

  #moved(from: RunStatus, row: RunRow): void {
    this.#counts[from] -= 1;
    this.#counts[row.status] += 1;
    this.#notify(row);
  }

  #notify({ id, status, cancel }: RunRow): void {
    this.#changes.notify({ id, status, cancel: cancel === 1 && !hasEnded(status) });
  }
}

function readQueue(db: DatabaseSync, path: string) {
  prepareSchema(db, path);
  const table = new RunTable(db);
  table.recover();
  return { table, epoch: table.epoch(), found: table.counts(), queued: table.queued() };
}

function sameInput(row: RunRow, inputSha256: string): RunRecord {
  if (row.input_sha256 === inputSha256) return toRecord(row);
  throw new QueueError('other_input', `the run ${row.id} was submitted with a different input`);
}
