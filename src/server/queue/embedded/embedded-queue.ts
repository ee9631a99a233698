import { hash } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { Listeners } from '../../../base/listeners.ts';
import { copyDatabase, namingDamage, noSpace, openExclusively } from '../../../base/sqlite-file.ts';
import { hasEnded, type RunRecord, type RunStatus, runStatuses } from '../../records/run.ts';
import {
  type Claim,
  type Line,
  type NewRun,
  type ParkedFor,
  type ParkedPage,
  QueueError,
  type QueueFacts,
  type RunChange,
  type RunEnding,
  type RunFilter,
  type RunMark,
  type RunQueue,
  type RunRelease,
} from '../run-queue.ts';
import { Commits } from './commits.ts';
import { Lines } from './fair-queue.ts';
import { type RunRow, RunTable, toRecord } from './run-table.ts';
import { prepareSchema } from './schema.ts';

export interface EmbeddedQueueOptions {
  /** Runs that may wait. */
  readonly maxQueued: number;
  /** @default the real one */
  readonly now?: () => number;
}

/** What `forget` removes at once. */
const FORGET_AT_ONCE = 500;
const REMEDY =
  'stop the node, then restore a backup with "spearlet restore FILE"; without a backup, move the file away: the node starts with an empty queue, and runs that had not ended are lost';
const cancelled = (message: string) => JSON.stringify({ reason: 'cancelled', code: null, message });
const CANCELLED_IN_LINE = cancelled('the run was cancelled before it started');
const CANCELLED_PARKED = cancelled('the run was cancelled while parked');

/** A queue in a file that this process alone has open: SQLite keeps it, and who is next is known in memory. */
export class EmbeddedQueue implements RunQueue {
  readonly isShared = false;
  readonly #db: DatabaseSync;
  readonly #table: RunTable;
  readonly #commits: Commits;
  readonly #lines = new Lines();
  /** When the leases of claimed runs end, by id. */
  readonly #leases = new Map<string, { readonly attempt: number; readonly until: number }>();
  readonly #changes = new Listeners<RunChange>();
  readonly #counts: Record<RunStatus, number>;
  readonly #path: string;
  readonly #epoch: string;
  readonly #maxQueued: number;
  readonly #now: () => number;
  /** Submissions that the disk has not got yet. */
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
      for (const row of queued) this.#wait(row, 'tail');
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
    if (this.#lines.size + this.#arriving >= this.#maxQueued) {
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
      this.#wait(row, 'tail');
      this.#tell(row);
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
    hasRoom: (line: Line) => boolean,
  ): Promise<readonly Claim[]> {
    await this.#takeBackExpired();
    const next = this.#lines.take(pool, max, hasRoom);
    if (next.length === 0) return [];
    const begin = () => next.map(({ seq }) => this.#table.begin(seq, node, this.#now()));
    const rows = await this.#commits.runPromptly(begin).catch((error: unknown) => {
      // They still wait, on the disk and so here.
      for (const { id } of next.toReversed()) {
        const row = this.#table.find(id);
        if (row?.status === 'queued') this.#wait(row, 'head');
      }
      throw error;
    });
    return rows.flatMap((row) => {
      if (row === null) return [];
      this.#leases.set(row.id, { attempt: row.attempts, until: this.#now() + leaseMs });
      this.#moved('queued', row);
      // Asked now: it may have been cancelled in the same commit, when nobody was there to be told.
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
    const { row, before } = await this.#commits.runPromptly(() => ({
      before: this.#table.find(run.id)?.status,
      row: this.#table.mark(run.id, attempt, mark),
    }));
    if (row !== null && before !== undefined) this.#moved(before, row);
    return row !== null;
  }

  async finish({ run, attempt }: Claim, ending: RunEnding): Promise<boolean> {
    const { row, before } = await this.#commits.run(() => ({
      before: this.#table.find(run.id)?.status,
      row: this.#table.finish(run.id, attempt, ending, this.#now()),
    }));
    if (row === null || before === undefined) return false;
    this.#leases.delete(run.id);
    this.#moved(before, row);
    return true;
  }

  release({ run, attempt }: Claim, release: RunRelease): Promise<boolean> {
    return this.#release(run.id, attempt, release);
  }

  async park({ run, attempt }: Claim, until: ParkedFor): Promise<boolean> {
    const { row, before } = await this.#commits.runPromptly(() => ({
      before: this.#table.find(run.id)?.status,
      row: this.#table.park(run.id, attempt, until),
    }));
    if (row === null || before === undefined) return false;
    this.#leases.delete(run.id);
    if (row.status === 'queued') this.#wait(row, 'head');
    this.#moved(before, row);
    return true;
  }

  async wake(namespace: string, id: string): Promise<boolean> {
    // Decisions are told of runs that nobody parked, too: those are not worth a commit.
    if (this.#table.find(id)?.status !== 'parked') return false;
    const row = await this.#commits.runPromptly(() => this.#table.wake(namespace, id));
    if (row === null) return false;
    this.#wait(row, 'head');
    this.#moved('parked', row);
    return true;
  }

  async parked(pool: string, cursor: string | null, limit: number): Promise<ParkedPage> {
    const rows = this.#reading(() => this.#table.parked(pool, cursor === null ? 0 : Number(cursor), limit));
    const last = rows.length < limit ? undefined : rows.at(-1);
    return { runs: rows.map(({ run }) => run), cursor: last === undefined ? null : String(last.seq) };
  }

  async cancel(namespace: string, id: string): Promise<RunRecord | null> {
    const known = this.#table.find(id);
    if (known?.namespace !== namespace) return null;
    const { row, before } = await this.#commits.run(() => {
      const status = this.#table.find(id)?.status;
      const exit = status === 'parked' ? CANCELLED_PARKED : CANCELLED_IN_LINE;
      return { before: status, row: this.#table.cancel(id, exit, this.#now()) };
    });
    if (row === null || before === undefined) return this.get(namespace, id); // it has ended
    if (row.status === 'cancelled') {
      this.#lines.remove(row.seq);
      this.#moved(before, row);
    } else this.#tell(row);
    return toRecord(row);
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
    const oldest = this.#lines.oldest();
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

  /** A node that lets its lease end has lost its runs. */
  async #takeBackExpired(): Promise<void> {
    const now = this.#now();
    const expired = [...this.#leases].filter(([, { until }]) => until <= now);
    for (const [id, { attempt }] of expired) {
      await this.#release(id, attempt, { counts: true, reason: 'the lease of its node expired' });
      this.#leases.delete(id);
    }
  }

  async #release(id: string, attempt: number, release: RunRelease): Promise<boolean> {
    const { row, before } = await this.#commits.runPromptly(() => ({
      before: this.#table.find(id)?.status,
      row: this.#table.release(id, attempt, release),
    }));
    if (row === null || before === undefined) return false;
    this.#leases.delete(id);
    this.#wait(row, 'head');
    this.#moved(before, row);
    return true;
  }

  #reading<T>(read: () => T): T {
    return namingDamage(this.#path, REMEDY, read);
  }

  #wait(row: RunRow, where: 'head' | 'tail'): void {
    const { namespace, task, submitted_by: submittedBy, seq, id, submitted_at_ms: since } = row;
    this.#lines.add(row.pool, { namespace, task, submittedBy }, { seq, id, since }, where);
  }

  #moved(from: RunStatus, row: RunRow): void {
    this.#counts[from] -= 1;
    this.#counts[row.status] += 1;
    this.#tell(row);
  }

  #tell({ id, status, cancel }: RunRow): void {
    this.#changes.tell({ id, status, cancel: cancel === 1 && !hasEnded(status) });
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
