import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ApprovalConnection } from '../agent/approvals/client.ts';
import { errorText } from '../base/errors.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { ParkedFor, RunQueue } from '../server/queue/run-queue.ts';
import { type NodeStops, noStops } from './node-stops.ts';

export interface ParkedRunsOptions {
  readonly queue: RunQueue;
  readonly pool: string;
  /** Null: approvals are denied. */
  readonly approvals: ApprovalConnection | null;
  /** Stops of the registry. @default none */
  readonly stops?: NodeStops;
  readonly log: ServiceLog;
}

/** A run that was parked. */
export interface ParkedRun {
  readonly namespace: string;
  readonly id: string;
  readonly until: ParkedFor;
}

/** Interval of the scan of all parked runs, which finds missed notifications. */
const SCAN_MS = 10 * 60_000;
/** Pause before a scan after a failure. */
const SCAN_AGAIN_MS = 5_000;
const PAGE = 500;
/** Maximum of requests per query to the registry. */
const MAX_IDS = 1_000;
/** Maximum of wake times in memory; later ones are found by the next scan. */
const MAX_TIMES = 20_000;
/** Timers are renewed at least this often, because the wall clock may be set. */
const LONGEST_TIMER_MS = 30_000;
/** Runs parked within this time are checked in one query. */
const BATCH_MS = 20;
const QUERY_TIMEOUT_MS = 10_000;
const WITHDRAW_MS = 5_000;

/**
 * Wakes the parked runs of a pool: when a request was decided, a timer is due, or a stop was lifted or cancels the run.
 *
 * - One watch of decisions serves all runs. A scan in pages at the start, after each reconnect of the watch and every ten
 *   minutes finds what the watch missed.
 * - Memory is bounded: only wake times before the next scan are held, at most MAX_TIMES of them.
 * - Scans and queries run one after the other; due timers wake runs concurrently with a scan.
 */
export class ParkedRuns {
  readonly #options: ParkedRunsOptions;
  readonly #times = new WakeTimes(MAX_TIMES);
  readonly #unsubscribe: readonly ((() => void) | undefined)[];
  readonly #stops: NodeStops;
  #timer: NodeJS.Timeout | undefined;
  #scanTimer: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #unchecked: { readonly run: ParkedRun; readonly requests: readonly string[] }[] = [];
  /** Serializes scans and queries. */
  #work: Promise<void> = Promise.resolve();
  #isScanDue = false;
  #isClosed = false;

  constructor(options: ParkedRunsOptions) {
    this.#options = options;
    this.#stops = options.stops ?? noStops;
    this.#unsubscribe = [
      options.approvals?.listen((event) => {
        if (event === 'connected') this.#scan();
        else if (event !== 'lost') void this.#wake(event.namespace, event.run);
      }),
      this.#stops.onChange(() => this.#scan()),
    ];
    this.#scan();
  }

  /** Takes over a run that was just parked; `requests`: its approval requests. */
  parked(run: ParkedRun, requests: readonly string[]): void {
    const { until } = run;
    if (until.kind === 'time') this.#expect(run.namespace, run.id, until.atMs);
    // The stop may have been lifted, or another one cancels, while the run was being parked.
    if (until.kind === 'stop' || this.#stops.hasCancel) this.#do(() => this.#wakeUnstopped(run));
    if (requests.length === 0) return;
    // A request may have been decided while the run was being parked.
    this.#unchecked.push({ run, requests });
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      const asked = this.#unchecked;
      this.#unchecked = [];
      this.#do(() => this.#wakeDecided(asked));
    }, BATCH_MS);
  }

  /** Withdraws the requests of a run that was cancelled. */
  async left(namespace: string, id: string): Promise<void> {
    const { approvals, log } = this.#options;
    await approvals?.port
      .withdrawAll(namespace, id, 'the run was cancelled', AbortSignal.timeout(WITHDRAW_MS))
      .catch((error: unknown) => log('warn', 'not_withdrawn', { run: id, message: errorText(error) }));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const stop of this.#unsubscribe) stop?.();
    for (const timer of [this.#timer, this.#scanTimer, this.#gathering]) clearTimeout(timer);
    await this.#work;
  }

  #scan(): void {
    if (this.#isScanDue) return;
    this.#isScanDue = true;
    this.#do(async () => {
      this.#isScanDue = false;
      clearTimeout(this.#scanTimer);
      await this.#scanAll();
      this.#scanAfter(SCAN_MS);
    });
  }

  #scanAfter(ms: number): void {
    clearTimeout(this.#scanTimer);
    if (!this.#isClosed) this.#scanTimer = setTimeout(() => this.#scan(), ms).unref();
  }

  async #scanAll(): Promise<void> {
    const { queue, pool } = this.#options;
    this.#times.isPartial = false;
    let cursor: string | null = null;
    do {
      const page = await queue.parked(pool, cursor, PAGE);
      const asked = [];
      for (const run of page.runs) {
        const { until } = run;
        if (until.kind === 'time') this.#expect(run.namespace, run.id, until.atMs);
        if (until.kind === 'stop' || this.#stops.hasCancel) await this.#wakeUnstopped(run);
        if (until.kind === 'approval') asked.push({ run, requests: until.request.split(' ') });
      }
      await this.#wakeDecided(asked);
      ({ cursor } = page);
      // There may be a million runs: yield to other work between pages.
      await nextTurn();
    } while (cursor !== null && !this.#isClosed);
  }

  /** Wakes a run whose stop was lifted, or that a stop cancels (it is claimed to end). */
  async #wakeUnstopped({ namespace, id, until }: ParkedRun): Promise<void> {
    const isLifted = until.kind === 'stop' && this.#stops.isLifted(until.stop);
    const run = isLifted ? null : await this.#options.queue.find(id);
    const isCancelled = run !== null && this.#stops.of(run)?.effect === 'cancel';
    if (isLifted || isCancelled) await this.#wake(namespace, id);
  }

  /** Wakes the runs of which a request is no longer pending. */
  async #wakeDecided(
    asked: readonly { readonly run: ParkedRun; readonly requests: readonly string[] }[],
  ): Promise<void> {
    const { approvals } = this.#options;
    const ids = asked.flatMap(({ requests }) => requests);
    const waiting = new Set<string>();
    for (let at = 0; at < ids.length && approvals !== null; at += MAX_IDS) {
      const some = await approvals.port.waiting(ids.slice(at, at + MAX_IDS), AbortSignal.timeout(QUERY_TIMEOUT_MS));
      for (const id of some) waiting.add(id);
    }
    const decided = asked.filter(({ requests }) => requests.some((id) => !waiting.has(id)));
    await Promise.all(decided.map(({ run }) => this.#wake(run.namespace, run.id)));
  }

  #expect(namespace: string, id: string, atMs: number): void {
    if (atMs > Date.now() + 2 * SCAN_MS) return; // a later scan finds it in time
    this.#times.add({ namespace, id, atMs });
    this.#arm();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const { next } = this.#times;
    if (this.#isClosed) return;
    if (next === null) {
      if (this.#times.isPartial) this.#scan();
      return;
    }
    const inMs = Math.min(Math.max(0, next - Date.now()), LONGEST_TIMER_MS);
    this.#timer = setTimeout(() => void this.#wakeDue(), inMs).unref();
  }

  /** Not serialized with scans, which may take long. */
  async #wakeDue(): Promise<void> {
    while (!this.#isClosed) {
      const due = this.#times.takeDue(Date.now(), PAGE);
      if (due.length === 0) break;
      await Promise.all(due.map(({ namespace, id }) => this.#wake(namespace, id)));
    }
    this.#arm();
  }

  async #wake(namespace: string, id: string): Promise<void> {
    const { queue, log } = this.#options;
    try {
      if (await queue.wake(namespace, id)) log('info', 'run_woken', { run: id });
    } catch (error) {
      this.#failed(error);
    }
  }

  #do(work: () => Promise<void>): void {
    this.#work = this.#work.then(async () => {
      if (this.#isClosed) return;
      await work().catch((error: unknown) => this.#failed(error));
    });
  }

  #failed(error: unknown): void {
    if (this.#isClosed) return;
    // An unreachable registry was logged already, and its return starts a scan.
    if (this.#options.approvals?.isUp !== false) {
      this.#options.log('warn', 'not_woken', { message: errorText(error) });
    }
    this.#scanAfter(SCAN_AGAIN_MS);
  }
}

/** Time at which a run is due. */
export interface WakeTime {
  readonly namespace: string;
  readonly id: string;
  readonly atMs: number;
}

/** Bounded queue of wake times, soonest first. */
export class WakeTimes {
  readonly #max: number;
  #times: WakeTime[] = [];
  /** Current time of each run; an entry with another time is outdated. */
  readonly #known = new Map<string, number>();
  /** Some times were dropped for lack of room: a scan is needed. */
  isPartial = false;

  constructor(max: number) {
    this.#max = max;
  }

  get next(): number | null {
    return this.#times[0]?.atMs ?? null;
  }

  add(time: WakeTime): void {
    if (this.#known.get(time.id) === time.atMs) return;
    this.#known.set(time.id, time.atMs);
    let [from, to] = [0, this.#times.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#times[middle] as WakeTime).atMs <= time.atMs) from = middle + 1;
      else to = middle;
    }
    this.#times.splice(from, 0, time);
    if (this.#times.length <= this.#max) return;
    const last = this.#times.pop();
    if (last !== undefined) this.#remove(last);
    this.isPartial = true;
  }

  /** Removes at most `max` due runs. */
  takeDue(now: number, max: number): readonly WakeTime[] {
    let due = 0;
    while (due < max && due < this.#times.length && (this.#times[due] as WakeTime).atMs <= now) due += 1;
    return this.#times.splice(0, due).filter((time) => this.#remove(time));
  }

  /** False: the entry is outdated. */
  #remove({ id, atMs }: WakeTime): boolean {
    return this.#known.get(id) === atMs && this.#known.delete(id);
  }
}
