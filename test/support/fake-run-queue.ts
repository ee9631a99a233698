import { createHash } from 'node:crypto';
import {
  type Claim,
  type NewRun,
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
} from '../../src/server/queue/run-queue.ts';
import { hasEnded, type ParkedFor, type RunRecord, type RunStatus, runStatuses } from '../../src/server/records/run.ts';

interface Entry {
  run: RunRecord;
  /** Position in the order of submission, for lists. */
  readonly number: number;
  /** Position in its line: lower is claimed first. */
  rank: number;
  readonly input: Uint8Array;
  result: Uint8Array | null;
  isCancelled: boolean;
  leaseEndsMs: number;
}

type Method = 'claim' | 'renew' | 'mark' | 'finish' | 'release' | 'park' | 'wake' | 'parked';

interface Recorded {
  readonly method: Method;
  /** The run, or the pool where the method takes no run. */
  readonly about: string;
  /** What else was passed. */
  readonly given: unknown;
}

export interface FakeRunQueueOptions {
  readonly maxQueued?: number;
  readonly isShared?: boolean;
  readonly now?: () => number;
}

/**
 * A run queue in memory, for tests of whatever uses one. It passes the same contract as the real engines
 * (test/support/fake-run-queue.test.ts), records the calls of a node, and fails on request.
 */
export class FakeRunQueue implements RunQueue {
  readonly isShared: boolean;
  readonly calls: Recorded[] = [];
  readonly #maxQueued: number;
  readonly #now: () => number;
  #entries = new Map<string, Entry>();
  #spent = new Map<string, number>();
  /** Lines in the order in which they are served. */
  #lines: string[] = [];
  #next = 1;
  readonly #work = new Set<() => void>();
  readonly #changes = new Set<(change: RunChange) => void>();
  readonly #hooks = new Map<Method, (() => Promise<void>)[]>();

  constructor({ maxQueued = 1_000, isShared = false, now = Date.now }: FakeRunQueueOptions = {}) {
    this.#maxQueued = maxQueued;
    this.isShared = isShared;
    this.#now = now;
  }

  /** The next `times` calls of the method reject. */
  fail(method: Method, error: Error, times = 1): void {
    for (let left = times; left > 0; left--) this.#hook(method, () => Promise.reject(error));
  }

  /** The next call of the method waits for the returned function. */
  hold(method: Method): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#hook(method, () => promise);
    return resolve;
  }

  /** Calls of one method, as `about` and what else was passed. */
  called(method: Method): readonly (readonly [about: string, given: unknown])[] {
    return this.calls.filter((call) => call.method === method).map((call) => [call.about, call.given]);
  }

  /** Notifies listeners that there may be work, as a real engine may do without cause. */
  notify(): void {
    for (const listener of this.#work) listener();
  }

  get listeners(): number {
    return this.#work.size + this.#changes.size;
  }

  /** The queue as the next process finds it: runs that were claimed are queued again, in front. */
  restarted(options: FakeRunQueueOptions = {}): FakeRunQueue {
    const queue = new FakeRunQueue(options);
    queue.#entries = this.#entries;
    queue.#spent = this.#spent;
    queue.#lines = this.#lines;
    queue.#next = this.#next;
    for (const entry of queue.#entries.values()) if (isClaimed(entry)) queue.#requeue(entry, true);
    return queue;
  }

  async submit(run: NewRun): Promise<{ readonly run: RunRecord; readonly created: boolean }> {
    const known = this.#entries.get(run.id);
    if (known !== undefined) {
      if (Buffer.compare(known.input, run.input) === 0) return { run: known.run, created: false };
      throw new QueueError('other_input', `run ${run.id} has another input`);
    }
    const open = [...this.#entries.values()].filter((entry) => !hasEnded(entry.run.status));
    if (open.length >= this.#maxQueued) throw new QueueError('full', `${open.length} runs are queued`);
    const number = this.#next++;
    const entry: Entry = {
      run: recordOf(run, this.#now()),
      number,
      rank: number,
      input: run.input,
      result: null,
      isCancelled: false,
      leaseEndsMs: 0,
    };
    this.#entries.set(run.id, entry);
    this.#changed(entry);
    this.notify();
    return { run: entry.run, created: true };
  }

  async cancel(namespace: string, id: string): Promise<RunRecord | null> {
    const entry = this.#of(namespace, id);
    if (entry === null) return null;
    if (hasEnded(entry.run.status)) return entry.run;
    entry.isCancelled = true;
    if (!isClaimed(entry)) {
      const exit = { reason: 'cancelled', code: null, message: 'cancelled before it was claimed' };
      this.#end(entry, { status: 'cancelled', exit, cost: null, result: new Uint8Array() });
    } else this.#changed(entry, true);
    return entry.run;
  }

  async get(namespace: string, id: string): Promise<RunRecord | null> {
    return this.#of(namespace, id)?.run ?? null;
  }

  async find(id: string): Promise<RunRecord | null> {
    return this.#entries.get(id)?.run ?? null;
  }

  async list(namespace: string, { task, status, cursor, limit }: RunFilter) {
    const found = [...this.#entries.values()]
      .filter(({ run }) => run.namespace === namespace)
      .filter(({ run }) => (task ?? run.task) === run.task && (status ?? run.status) === run.status)
      .filter(({ number }) => number < Number(cursor ?? Number.POSITIVE_INFINITY))
      .sort((a, b) => b.number - a.number);
    const page = found.slice(0, limit);
    return {
      runs: page.map(({ run }) => run),
      cursor: found.length > limit ? String(page.at(-1)?.number) : null,
    };
  }

  async input(id: string): Promise<Uint8Array | null> {
    return this.#entries.get(id)?.input ?? null;
  }

  async result(id: string): Promise<Uint8Array | null> {
    return this.#entries.get(id)?.result ?? null;
  }

  onChange(listener: (change: RunChange) => void): () => void {
    this.#changes.add(listener);
    return () => this.#changes.delete(listener);
  }

  facts(): QueueFacts {
    const byStatus = Object.fromEntries(runStatuses.map((status) => [status, 0])) as Record<RunStatus, number>;
    for (const { run } of this.#entries.values()) byStatus[run.status] += 1;
    const queued = [...this.#entries.values()].filter(({ run }) => run.status === 'queued');
    const oldest = Math.min(...queued.map(({ run }) => run.submitted_at_ms));
    return { byStatus, oldestQueuedMs: queued.length === 0 ? null : this.#now() - oldest };
  }

  problem(): string | null {
    return null;
  }

  async close(): Promise<void> {}

  onWork(listener: () => void): () => void {
    this.#work.add(listener);
    return () => this.#work.delete(listener);
  }

  async claim(
    node: string,
    pool: string,
    max: number,
    leaseMs: number,
    hasRoom: (line: QueueKey) => boolean,
  ): Promise<readonly Claim[]> {
    await this.#called('claim', pool, { node, max, leaseMs });
    for (const entry of this.#entries.values()) {
      if (isClaimed(entry) && entry.leaseEndsMs <= this.#now()) this.#requeue(entry, true);
    }
    const claims: Claim[] = [];
    const queued = [...this.#entries.values()]
      .filter(({ run }) => run.status === 'queued' && run.pool === pool)
      .sort((a, b) => a.rank - b.rank);
    const lines = new Set([...this.#lines, ...queued.map(lineOf)]);
    while (claims.length < max && lines.size > 0) {
      for (const line of [...lines]) {
        const entry = queued.find((one) => one.run.status === 'queued' && lineOf(one) === line);
        if (entry === undefined || !hasRoom(lineFields(entry))) lines.delete(line);
        else {
          claims.push(this.#claimed(entry, node, leaseMs));
          this.#lines = [...this.#lines.filter((other) => other !== line), line];
        }
        if (claims.length >= max) break;
      }
    }
    return claims;
  }

  async renew(claim: Claim, leaseMs: number): Promise<boolean> {
    await this.#called('renew', claim.run.id, { leaseMs });
    const entry = this.#owned(claim);
    if (entry === null) return false;
    entry.leaseEndsMs = this.#now() + leaseMs;
    return true;
  }

  async mark(claim: Claim, { status, reason = null, degraded }: RunMark): Promise<boolean> {
    await this.#called('mark', claim.run.id, { status });
    const entry = this.#owned(claim);
    if (entry === null) return false;
    const marked = degraded === undefined ? {} : { degraded: [...degraded] };
    entry.run = { ...entry.run, ...marked, status, status_reason: reason };
    this.#changed(entry);
    return true;
  }

  async finish(claim: Claim, ending: RunEnding): Promise<boolean> {
    await this.#called('finish', claim.run.id, { status: ending.status });
    const entry = this.#owned(claim);
    if (entry !== null) this.#end(entry, ending);
    return entry !== null;
  }

  async release(claim: Claim, { counts, reason = null }: RunRelease): Promise<boolean> {
    await this.#called('release', claim.run.id, { counts });
    const entry = this.#owned(claim);
    if (entry === null) return false;
    this.#requeue(entry, counts, reason);
    this.notify();
    return true;
  }

  async park(claim: Claim, until: ParkedFor): Promise<boolean> {
    await this.#called('park', claim.run.id, { until });
    const entry = this.#owned(claim);
    if (entry === null) return false;
    this.#requeue(entry, false);
    if (!entry.isCancelled) {
      entry.run = { ...entry.run, status: 'parked', parked_for: until };
      this.#changed(entry);
    } else this.notify();
    return true;
  }

  async wake(namespace: string, id: string): Promise<boolean> {
    await this.#called('wake', id, { namespace });
    const entry = this.#of(namespace, id);
    if (entry?.run.status !== 'parked') return false;
    this.#requeue(entry, true);
    this.notify();
    return true;
  }

  async parked(pool: string, cursor: string | null, limit: number): Promise<ParkedPage> {
    await this.#called('parked', pool, { cursor, limit });
    const found = [...this.#entries.values()].filter(
      ({ run, number }) => run.status === 'parked' && run.pool === pool && number > Number(cursor ?? 0),
    );
    const page = found.slice(0, limit);
    return {
      runs: page.flatMap(({ run: { namespace, id, parked_for: until } }) => (until ? [{ namespace, id, until }] : [])),
      cursor: found.length > limit ? String(page.at(-1)?.number) : null,
    };
  }

  async forget(endedBefore: number): Promise<readonly RunRecord[]> {
    const gone = [...this.#entries.values()].filter(({ run }) => (run.ended_at_ms ?? endedBefore) < endedBefore);
    for (const { run } of gone) this.#entries.delete(run.id);
    return gone.map(({ run }) => run);
  }

  async spent(scope: string, day: string): Promise<number> {
    return this.#spent.get(`${scope} ${day}`) ?? 0;
  }

  async spend(scope: string, day: string, tokens: number): Promise<void> {
    this.#spent.set(`${scope} ${day}`, (await this.spent(scope, day)) + tokens);
  }

  #hook(method: Method, hook: () => Promise<void>): void {
    this.#hooks.set(method, [...(this.#hooks.get(method) ?? []), hook]);
  }

  async #called(method: Method, about: string, given: unknown): Promise<void> {
    this.calls.push({ method, about, given });
    await this.#hooks.get(method)?.shift()?.();
  }

  #of(namespace: string, id: string): Entry | null {
    const entry = this.#entries.get(id);
    return entry?.run.namespace === namespace ? entry : null;
  }

  /** Null: another claim has it, or none. */
  #owned({ run, attempt }: Claim): Entry | null {
    const entry = this.#entries.get(run.id);
    return entry !== undefined && isClaimed(entry) && entry.run.attempts === attempt ? entry : null;
  }

  #claimed(entry: Entry, node: string, leaseMs: number): Claim {
    const attempt = entry.run.attempts + 1;
    const begun = { attempts: attempt, node, started_at_ms: this.#now() };
    entry.run = { ...entry.run, ...begun, status: 'running', status_reason: null };
    entry.leaseEndsMs = this.#now() + leaseMs;
    this.#changed(entry);
    return { run: entry.run, attempt, isCancelled: entry.isCancelled, input: async () => entry.input };
  }

  #requeue(entry: Entry, counts: boolean, reason: string | null = null): void {
    const { run } = entry;
    const attempts = run.attempts - (counts ? 0 : 1);
    entry.run = { ...run, status: 'queued', attempts, parked_for: null, status_reason: reason };
    // Ranks of a line stay in the order in which its runs were submitted.
    entry.rank = entry.number - this.#next;
    this.#changed(entry);
  }

  #end(entry: Entry, { status, exit, cost, result, degraded }: RunEnding): void {
    entry.result = result;
    const ended = { status, exit, cost, ended_at_ms: this.#now(), result_bytes: result.byteLength, parked_for: null };
    const missing = degraded === undefined ? {} : { degraded: [...degraded] };
    entry.run = { ...entry.run, ...ended, ...missing, status_reason: null };
    this.#changed(entry);
  }

  #changed({ run }: Entry, cancel = false): void {
    for (const listener of this.#changes) listener({ id: run.id, status: run.status, cancel });
  }
}

const isClaimed = ({ run }: Entry) => run.status === 'running' || run.status === 'waiting';

const lineFields = ({ run }: Entry): QueueKey => ({
  namespace: run.namespace,
  task: run.task,
  submittedBy: run.submitted_by,
});

const lineOf = (entry: Entry) => Object.values(lineFields(entry)).join(' ');

function recordOf(run: NewRun, now: number): RunRecord {
  const { id, namespace, task, revision, wasm, pool, submittedBy, input, maxAttempts, retryOf = null } = run;
  return {
    ...{ id, namespace, task, revision, wasm, pool, status: 'queued' },
    ...{ submitted_by: submittedBy, submitted_at_ms: now, started_at_ms: null, ended_at_ms: null },
    ...{ attempts: 0, max_attempts: maxAttempts, node: null, exit: null, cost: null },
    input_bytes: input.byteLength,
    input_sha256: createHash('sha256').update(input).digest('hex'),
    result_bytes: null,
    retry_of: retryOf,
    first_submitted_by: run.firstSubmittedBy ?? null,
  };
}
