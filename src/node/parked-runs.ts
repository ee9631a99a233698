import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ApprovalConnection } from '../agent/approvals/client.ts';
import { errorText } from '../base/error-text.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { ParkedFor, RunQueue } from '../server/queue/run-queue.ts';
import { type NodeStops, noStops } from './node-stops.ts';

export interface ParkedRunsOptions {
  readonly queue: RunQueue;
  readonly pool: string;
  /** Null: there is nobody to decide, and whoever waits for somebody is told so. */
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

/** All parked runs are looked at so often, whatever was heard of them meanwhile. */
const SCAN_MS = 10 * 60_000;
/** Where looking or waking failed. */
const SCAN_AGAIN_MS = 5_000;
const PAGE = 500;
/** What a registry is asked about at once. */
const MAX_IDS = 1_000;
/** Times that are kept: those that come before the next look, as far as there is room. */
const MAX_TIMES = 20_000;
/** A timer is set anew at the latest then: the clock on the wall may be set. */
const LONGEST_TIMER_MS = 30_000;
/** Runs that are parked at the same moment are asked about together. */
const GATHER_MS = 20;
const ASK_MS = 10_000;
const WITHDRAW_MS = 5_000;

/**
 * Watches on behalf of the parked runs of a pool, and wakes each when what it waits for is there. One watch of decisions
 * serves all of them; what it may have missed is asked for in pages. Nothing is held for a run but, shortly before, its
 * time.
 */
export class ParkedRuns {
  readonly #options: ParkedRunsOptions;
  readonly #times = new WakeTimes(MAX_TIMES);
  readonly #unsubscribe: readonly ((() => void) | undefined)[];
  readonly #stops: NodeStops;
  #timer: NodeJS.Timeout | undefined;
  #scanTimer: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #asked: { readonly run: ParkedRun; readonly requests: readonly string[] }[] = [];
  /** One thing after the other. */
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

  /** A run was parked just now; `requests`: all that it has asked people. */
  parked(run: ParkedRun, requests: readonly string[]): void {
    const { until } = run;
    if (until.kind === 'time') this.#expect(run.namespace, run.id, until.atMs);
    // The stop may have been lifted, or another one cancels, while the run was being parked.
    if (until.kind === 'stop' || this.#stops.hasCancel) this.#do(() => this.#wakeUnstopped(run));
    if (requests.length === 0) return;
    // What was decided while it was being parked was told when nobody listened.
    this.#asked.push({ run, requests });
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      const asked = this.#asked;
      this.#asked = [];
      this.#do(() => this.#wakeDecided(asked));
    }, GATHER_MS);
  }

  /** The run has ended, and wants no answers any more. */
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
      // There may be a million: others have their turns between.
      await nextTurn();
    } while (cursor !== null && !this.#isClosed);
  }

  /** A run whose stop was lifted, or that a stop cancels: it is claimed to end. */
  async #wakeUnstopped({ namespace, id, until }: ParkedRun): Promise<void> {
    const isLifted = until.kind === 'stop' && this.#stops.isLifted(until.stop);
    const run = isLifted ? null : await this.#options.queue.find(id);
    const isCancelled = run !== null && this.#stops.of(run)?.effect === 'cancel';
    if (isLifted || isCancelled) await this.#wake(namespace, id);
  }

  /** Those of which a request does not wait any more. */
  async #wakeDecided(
    asked: readonly { readonly run: ParkedRun; readonly requests: readonly string[] }[],
  ): Promise<void> {
    const { approvals } = this.#options;
    const ids = asked.flatMap(({ requests }) => requests);
    const waiting = new Set<string>();
    for (let at = 0; at < ids.length && approvals !== null; at += MAX_IDS) {
      const some = await approvals.port.waiting(ids.slice(at, at + MAX_IDS), AbortSignal.timeout(ASK_MS));
      for (const id of some) waiting.add(id);
    }
    const decided = asked.filter(({ requests }) => requests.some((id) => !waiting.has(id)));
    await Promise.all(decided.map(({ run }) => this.#wake(run.namespace, run.id)));
  }

  #expect(namespace: string, id: string, atMs: number): void {
    if (atMs > Date.now() + 2 * SCAN_MS) return; // a later look finds it in time
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

  /** Beside all else: a look at all of them takes its time. */
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
    // Where the registry is away, that was said, and everything is looked at when it is back.
    if (this.#options.approvals?.isUp !== false) {
      this.#options.log('warn', 'not_woken', { message: errorText(error) });
    }
    this.#scanAfter(SCAN_AGAIN_MS);
  }
}

/** A run that is to be woken at a time. */
export interface WakeTime {
  readonly namespace: string;
  readonly id: string;
  readonly atMs: number;
}

/** The runs whose time comes next, as many as there is room for, soonest first. */
export class WakeTimes {
  readonly #max: number;
  #times: WakeTime[] = [];
  /** The time of each that is in there; another one of the same run is old. */
  readonly #known = new Map<string, number>();
  /** Some had no room: they are to be looked for again. */
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
    if (last !== undefined) this.#isOver(last);
    this.isPartial = true;
  }

  /** At most `max` of those whose time has come. */
  takeDue(now: number, max: number): readonly WakeTime[] {
    let due = 0;
    while (due < max && due < this.#times.length && (this.#times[due] as WakeTime).atMs <= now) due += 1;
    return this.#times.splice(0, due).filter((time) => this.#isOver(time));
  }

  /** False: it is an old one. */
  #isOver({ id, atMs }: WakeTime): boolean {
    return this.#known.get(id) === atMs && this.#known.delete(id);
  }
}
