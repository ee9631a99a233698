import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { parkedFor, type RunRecord, type RunStatus } from '../../records/run.ts';
import type { NewRun, ParkedFor, RunEnding, RunFilter, RunMark, RunRelease } from '../run-queue.ts';

const CLAIMED = "status IN ('running', 'waiting')";
const WITH_PARKED = 'SELECT runs.*, parked.until FROM runs LEFT JOIN parked USING (seq)';

/**
 * SQL statements of the embedded queue, prepared once. Each method is one state transition guarded by id, attempt and
 * status, and returns null if the guard fails. The caller provides the transaction.
 */
export class RunTable {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  insert(run: NewRun, inputSha256: string, now: number): number {
    const { id, namespace, task, revision, wasm, pool, submittedBy, maxAttempts, retryOf = null, input } = run;
    const { traceparent = null, firstSubmittedBy = null } = run;
    const { lastInsertRowid } = this.#run(
      `INSERT INTO runs (id, namespace, task, revision, wasm, pool, status, submitted_by, submitted_at_ms, max_attempts,
        input_bytes, input_sha256, retry_of, traceparent, first_submitted_by, epoch)
        VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, (SELECT epoch FROM epoch))`,
      ...[id, namespace, task, revision, wasm, pool, submittedBy, now, maxAttempts],
      ...[input.byteLength, inputSha256, retryOf, traceparent, firstSubmittedBy],
    );
    const seq = Number(lastInsertRowid);
    this.#run('INSERT INTO inputs VALUES (?, ?)', seq, input);
    return seq;
  }

  find(id: string): RunRow | null {
    return this.#row('SELECT * FROM runs WHERE id = ?', id);
  }

  /** Includes what the run is parked for. */
  shown(id: string): RunRow | null {
    return this.#row(`${WITH_PARKED} WHERE id = ?`, id);
  }

  /** Null: the run is no longer queued. */
  begin(seq: number, node: string, now: number): RunRow | null {
    return this.#row(
      `UPDATE runs SET status = 'running', attempts = attempts + 1, node = ?, started_at_ms = ?, status_reason = NULL
        WHERE seq = ? AND status = 'queued' RETURNING *`,
      ...[node, now, seq],
    );
  }

  mark(id: string, attempt: number, { status, reason = null, degraded }: RunMark): RunRow | null {
    return this.#row(
      `UPDATE runs SET status = ?, status_reason = ?, degraded = coalesce(?, degraded)
        WHERE id = ? AND attempts = ? AND ${CLAIMED} RETURNING *`,
      ...[status, reason, degraded === undefined ? null : JSON.stringify(degraded), id, attempt],
    );
  }

  finish(id: string, attempt: number, { status, exit, cost, result, degraded }: RunEnding, now: number): RunRow | null {
    const row = this.#row(
      `UPDATE runs SET status = ?, exit = ?, cost = ?, result_bytes = ?, ended_at_ms = ?, status_reason = NULL,
        degraded = coalesce(?, degraded) WHERE id = ? AND attempts = ? AND ${CLAIMED} RETURNING *`,
      ...[status, JSON.stringify(exit), cost === null ? null : JSON.stringify(cost), result.byteLength, now],
      ...[degraded === undefined ? null : JSON.stringify(degraded), id, attempt],
    );
    if (row !== null) this.#run('INSERT INTO results VALUES (?, ?)', row.seq, result);
    return row;
  }

  release(id: string, attempt: number, { counts, reason = null }: RunRelease): RunRow | null {
    return this.#row(
      `UPDATE runs SET status = 'queued', node = NULL, attempts = attempts - ?, status_reason = ?
        WHERE id = ? AND attempts = ? AND ${CLAIMED} RETURNING *`,
      ...[counts ? 0 : 1, reason, id, attempt],
    );
  }

  /** A run that is being cancelled returns to the queue instead. */
  park(id: string, attempt: number, until: ParkedFor): RunRow | null {
    const row = this.#row(
      `UPDATE runs SET status = iif(cancel, 'queued', 'parked'), node = NULL, attempts = attempts - 1, status_reason = NULL
        WHERE id = ? AND attempts = ? AND ${CLAIMED} RETURNING *`,
      ...[id, attempt],
    );
    if (row?.status === 'parked') {
      this.#run('INSERT INTO parked VALUES (?, ?, ?)', row.seq, row.pool, JSON.stringify(until));
    }
    return row;
  }

  wake(namespace: string, id: string): RunRow | null {
    const sql = "UPDATE runs SET status = 'queued' WHERE id = ? AND namespace = ? AND status = 'parked' RETURNING *";
    const row = this.#row(sql, id, namespace);
    if (row !== null) this.#unpark(row);
    return row;
  }

  parked(pool: string, after: number, limit: number) {
    const sql = `SELECT parked.seq, namespace, id, until FROM parked JOIN runs USING (seq)
      WHERE parked.pool = ? AND parked.seq > ? ORDER BY parked.seq LIMIT ?`;
    return this.#prepared(sql)
      .all(pool, after, limit)
      .map(({ seq, namespace, id, until }) => ({
        seq: Number(seq),
        run: { namespace: String(namespace), id: String(id), until: toParkedFor(String(until)) },
      }));
  }

  /** Ends a queued or parked run; marks a running one. */
  cancel(id: string, exit: string, now: number): RunRow | null {
    const ended = this.#row(
      `UPDATE runs SET status = 'cancelled', exit = ?, ended_at_ms = ?, result_bytes = 0, cancel = 1, status_reason = NULL
        WHERE id = ? AND status IN ('queued', 'parked') RETURNING *`,
      ...[exit, now, id],
    );
    if (ended !== null) this.#unpark(ended);
    return ended ?? this.#row(`UPDATE runs SET cancel = 1 WHERE id = ? AND ${CLAIMED} RETURNING *`, id);
  }

  /** Returns the runs of the previous process to the queue. */
  recover(): void {
    this.#run(`UPDATE runs SET status = 'queued', node = NULL, status_reason = NULL WHERE ${CLAIMED}`);
  }

  epoch(): string {
    return String(this.#prepared('SELECT epoch FROM epoch').get()?.epoch ?? '');
  }

  queued(): readonly RunRow[] {
    // Runs with earlier attempts come first.
    const sql = "SELECT * FROM runs WHERE status = 'queued' ORDER BY attempts = 0, seq";
    return this.#prepared(sql).all() as unknown as RunRow[];
  }

  counts(): ReadonlyMap<RunStatus, number> {
    const rows = this.#prepared('SELECT status, count(*) AS count FROM runs GROUP BY status').all();
    return new Map(rows.map(({ status, count }) => [status as RunStatus, Number(count)]));
  }

  page(namespace: string, { task, status, limit }: RunFilter, before: number): readonly RunRow[] {
    const wanted = [
      ['namespace = ?', namespace],
      ['seq < ?', before],
      ...(task === undefined ? [] : [['task = ?', task]]),
      ...(status === undefined ? [] : [['status = ?', status]]),
    ] as readonly [string, SQLInputValue][];
    const where = wanted.map(([condition]) => condition).join(' AND ');
    const sql = `${WITH_PARKED} WHERE ${where} ORDER BY seq DESC LIMIT ?`;
    return this.#prepared(sql).all(...wanted.map(([, value]) => value), limit) as unknown as RunRow[];
  }

  body(table: 'inputs' | 'results', id: string): Uint8Array | null {
    const sql = `SELECT body FROM ${table} JOIN runs USING (seq) WHERE id = ?`;
    return (this.#prepared(sql).get(id)?.body as Uint8Array | undefined) ?? null;
  }

  forget(endedBefore: number, max: number): readonly RunRecord[] {
    const gone = this.#prepared(
      'DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE ended_at_ms < ? ORDER BY seq LIMIT ?) RETURNING *',
    ).all(endedBefore, max) as unknown as RunRow[];
    for (const { seq } of gone) {
      this.#run('DELETE FROM inputs WHERE seq = ?', seq);
      this.#run('DELETE FROM results WHERE seq = ?', seq);
    }
    return gone.map(toRecord);
  }

  spent(scope: string, day: string): number {
    return Number(this.#prepared('SELECT tokens FROM spent WHERE day = ? AND scope = ?').get(day, scope)?.tokens ?? 0);
  }

  spend(scope: string, day: string, tokens: number): void {
    this.#run('DELETE FROM spent WHERE day < ?', day);
    this.#run(
      'INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens',
      ...[day, scope, tokens],
    );
  }

  #unpark({ seq }: RunRow): void {
    this.#run('DELETE FROM parked WHERE seq = ?', seq);
  }

  #row(sql: string, ...values: SQLInputValue[]): RunRow | null {
    return (this.#prepared(sql).get(...values) as unknown as RunRow | undefined) ?? null;
  }

  #run(sql: string, ...values: SQLInputValue[]) {
    return this.#prepared(sql).run(...values);
  }

  #prepared(sql: string): StatementSync {
    const known = this.#statements.get(sql) ?? this.#db.prepare(sql);
    this.#statements.set(sql, known);
    return known;
  }
}

/** A row of the table `runs`. */
export interface RunRow extends Omit<RunRecord, 'exit' | 'cost' | 'parked_for' | 'degraded'> {
  readonly seq: number;
  readonly exit: string | null;
  readonly cost: string | null;
  readonly degraded: string | null;
  readonly cancel: number;
  /** Epoch of the submission; null: the first one. */
  readonly epoch: string | null;
  /** Selected by some statements only; set for a parked run. */
  readonly until?: string | null;
}

export function toRecord({
  seq: _,
  cancel: __,
  epoch: ___,
  exit,
  cost,
  degraded,
  until = null,
  ...row
}: RunRow): RunRecord {
  return {
    ...row,
    exit: exit === null ? null : (JSON.parse(exit) as RunRecord['exit']),
    cost: cost === null ? null : (JSON.parse(cost) as RunRecord['cost']),
    degraded: degraded === null ? null : (JSON.parse(degraded) as RunRecord['degraded']),
    ...(until === null ? {} : { parked_for: toParkedFor(until) }),
  };
}

export const toParkedFor = (text: string): ParkedFor => parkedFor.parse(JSON.parse(text));
