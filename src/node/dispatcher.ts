import { errorText } from '../base/errors.ts';
import { backoffMs } from '../base/timing.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { Claim, QueueKey, RunEnding, RunQueue } from '../server/queue/run-queue.ts';
import type { StopRecord } from '../server/records/stop.ts';
import type { AttemptOutcome, StopReason } from './attempt.ts';
import { faultOf, retryOf } from './host-failure.ts';
import { type NodeStops, noStops } from './node-stops.ts';
import type { ParkedRun } from './parked-runs.ts';

export interface DispatcherOptions {
  readonly queue: RunQueue;
  readonly node: string;
  readonly pool: string;
  readonly slots: number;
  readonly runsPerCaller: number;
  /** A node that does not renew its leases for this long loses its runs. */
  readonly leaseMs: number;
  /** Maximum of concurrent runs of a task on this node. */
  readonly concurrency: (namespace: string, task: string) => number;
  readonly attempt: (claim: Claim, signal: AbortSignal) => Promise<AttemptOutcome>;
  /** Called when a run was parked. */
  readonly onParked: (run: ParkedRun, requests: readonly string[]) => void;
  /** Stops of the registry. @default none */
  readonly stops?: NodeStops;
  /** How long running runs may continue when the node is drained by a stop. @default 0 */
  readonly drainMs?: number;
  readonly log: ServiceLog;
}

const PAUSES = { firstMs: 1_000, maxMs: 30_000 };
/** Pause between claims while the batch size grows again. */
const STEP_MS = 250;
const FAULTS = { firstMs: 250, maxMs: 10_000 };
const HOLDS = { firstMs: 1_000, maxMs: 8_000 };

interface Running {
  readonly claim: Claim;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

/** Back-off of a namespace whose runs could not start. No run of the namespace is claimed while the timer is set. */
interface Hold {
  readonly failures: number;
  timer: NodeJS.Timeout | null;
}

/**
 * Claims runs while there are free slots, starts an attempt for each, and stores its outcome.
 *
 * - At most `slots` attempts run at once, at most `concurrency` of a task and `runsPerCaller` of a caller.
 * - Outcomes are stored with retries, in the order of the transition rules: an ended run is finished, a parked run is
 *   parked, every other run is released. A claim that was lost stores nothing.
 * - Failures of the host pause all claims with back-off; after a pause the batch size starts at one and doubles. A
 *   namespace whose runs could not start is held with its own back-off.
 * - Leases are renewed three times per lease, all at once.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #stops: NodeStops;
  readonly #running = new Map<string, Running>();
  readonly #subscriptions: (() => void)[] = [];
  #leases: NodeJS.Timeout | undefined;
  #filling: Promise<void> = Promise.resolve();
  #isFilling = false;
  #again = false;
  #pauses = 0;
  #pausedUntil = 0;
  #pausedFor: string | null = null;
  /** Maximum of runs per claim. */
  #batch = Number.POSITIVE_INFINITY;
  #resume: NodeJS.Timeout | undefined;
  readonly #holds = new Map<string, Hold>();
  /** Deadline at which running runs of a drained node return to the queue. */
  #draining: NodeJS.Timeout | undefined;
  #isOpen = true;
  /** Number of started attempts. */
  starts = 0;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#stops = options.stops ?? noStops;
  }

  /** Subscribes to the queue and starts to claim runs. */
  start(): void {
    const { queue, leaseMs } = this.#options;
    this.#subscriptions.push(
      queue.onWork(() => this.fill()),
      queue.onChange(({ id, cancel }) => {
        if (cancel) this.#running.get(id)?.stop.abort('cancelled' satisfies StopReason);
      }),
      this.#stops.onChange(() => this.#applyStops()),
    );
    this.#leases = setInterval(() => void this.#renew(), leaseMs / 3);
    this.fill();
  }

  get running(): number {
    return this.#running.size;
  }

  get isDraining(): boolean {
    return !this.#isOpen;
  }

  /** Why no run is started now; null: runs are started. */
  problem(): string | null {
    if (this.#pausedFor === null || performance.now() >= this.#pausedUntil) return null;
    return `no run is started for now: ${this.#pausedFor}`;
  }

  /** Claims runs for the free slots. */
  fill(): void {
    this.#again = true;
    if (!this.#isFilling) this.#filling = this.#fill();
  }

  /** Stops claiming. Running attempts have `graceMs` to end; then their runs return to the queue. */
  async drain(graceMs: number): Promise<void> {
    this.#isOpen = false;
    await this.#filling;
    const all = Promise.all([...this.#running.values()].map(({ ended }) => ended));
    const { promise: over, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([all, over]);
    clearTimeout(timer);
    for (const { stop } of this.#running.values()) stop.abort('draining' satisfies StopReason);
    await all;
    clearInterval(this.#leases);
    clearTimeout(this.#resume);
    for (const { timer } of this.#holds.values()) if (timer !== null) clearTimeout(timer);
    clearTimeout(this.#draining);
    for (const unsubscribe of this.#subscriptions) unsubscribe();
  }

  async #fill(): Promise<void> {
    this.#isFilling = true;
    while (this.#again && this.#isOpen) {
      this.#again = false;
      await this.#fillOnce();
    }
    this.#isFilling = false;
  }

  async #fillOnce(): Promise<void> {
    const { queue, node, pool, slots, leaseMs, log } = this.#options;
    const left = this.#pausedUntil - performance.now();
    const free = Math.min(slots - this.#running.size, this.#batch);
    if (left > 0) this.#fillIn(left);
    if (left > 0 || free <= 0 || this.#stops.isHeld) return;
    try {
      const claims = await queue.claim(node, pool, free, leaseMs, this.#room());
      for (const claim of claims) this.#start(claim);
      if (claims.length > 0 && this.#batch < slots) this.#startSlowly();
    } catch (error) {
      log('error', 'claim_failed', { message: errorText(error) });
      this.#pause(`cannot claim runs: ${errorText(error)}`);
      this.#again = true;
    }
  }

  /** One timer per pause, however many notifications arrive during it. */
  #fillIn(ms: number): void {
    this.#resume ??= setTimeout(() => {
      this.#resume = undefined;
      this.fill();
    }, ms).unref();
  }

  /** Whether a key may have one more run. Counts the runs that it admitted itself. */
  #room(): (key: QueueKey) => boolean {
    const { concurrency, runsPerCaller } = this.#options;
    const tasks = new Map<string, number>();
    const callers = new Map<string, number>();
    const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
    let isCounted = false;
    // Counted lazily: usually there is nothing to claim.
    const countRunning = () => {
      for (const { claim } of this.#running.values()) {
        const { namespace, task, submitted_by } = claim.run;
        count(tasks, `${namespace}/${task}`);
        count(callers, `${namespace} ${submitted_by}`);
      }
      isCounted = true;
    };
    return ({ namespace, task, submittedBy }) => {
      if (this.#holds.get(namespace)?.timer) return false;
      if (isHeldBy(this.#stops.of({ namespace, task }))) return false;
      if (!isCounted) countRunning();
      const [taskKey, callerKey] = [`${namespace}/${task}`, `${namespace} ${submittedBy}`];
      if ((tasks.get(taskKey) ?? 0) >= concurrency(namespace, task)) return false;
      if ((callers.get(callerKey) ?? 0) >= runsPerCaller) return false;
      count(tasks, taskKey);
      count(callers, callerKey);
      return true;
    };
  }

  /** Synchronously on the notification, so that a stopped run does not record the calls that its gate denies afterwards. */
  #applyStops(): void {
    for (const { claim, stop } of this.#running.values()) {
      const found = this.#stops.of(claim.run);
      if (found?.effect === 'stop' || found?.effect === 'cancel') stop.abort({ stop: found } satisfies StopReason);
    }
    this.#setDraining();
    this.fill();
  }

  /** The grace period starts with the drain, and later changes of other stops do not extend it. */
  #setDraining(): void {
    if (this.#drained().length === 0) {
      clearTimeout(this.#draining);
      this.#draining = undefined;
      return;
    }
    this.#draining ??= setTimeout(() => this.#returnDrained(), this.#options.drainMs ?? 0).unref();
  }

  #returnDrained(): void {
    this.#draining = undefined;
    for (const { stop } of this.#drained()) stop.abort('draining' satisfies StopReason);
  }

  #drained(): readonly Running[] {
    return [...this.#running.values()].filter(({ claim }) => this.#stops.of(claim.run)?.effect === 'drain');
  }

  #start(claim: Claim): void {
    const stop = new AbortController();
    claim.lost?.addEventListener('abort', () => stop.abort('lost' satisfies StopReason));
    this.starts += 1;
    const ended = this.#run(claim, stop.signal).finally(() => {
      this.#running.delete(claim.run.id);
      this.fill();
    });
    this.#running.set(claim.run.id, { claim, stop, ended });
  }

  /** Runs one attempt and stores its outcome. */
  async #run(claim: Claim, signal: AbortSignal): Promise<void> {
    const { queue, log, attempt } = this.#options;
    const about = { run: claim.run.id, task: `${claim.run.namespace}/${claim.run.task}`, attempt: claim.attempt };
    let outcome: AttemptOutcome;
    try {
      outcome = await attempt(claim, signal);
    } catch (error) {
      outcome = retryOf(faultOf(error)) ?? { kind: 'again', counts: true, pause: false, why: errorText(error) };
    }
    if (outcome.kind !== 'again') this.#holds.delete(claim.run.namespace);
    if (outcome.kind === 'ended') {
      this.#pauses = 0;
      const { status, exit } = outcome.ending;
      const own = await this.#store(() => queue.finish(claim, (outcome as { ending: RunEnding }).ending));
      log('info', 'run_ended', { ...about, status, reason: exit.reason, own });
      return;
    }
    // Another node owns the run now and resumes it.
    if (claim.lost?.aborted) return log('warn', 'run_lost', { ...about, why: String(claim.lost.reason) });
    if (outcome.kind === 'parked') {
      const { until, requests } = outcome;
      const own = await this.#store(() => queue.park(claim, until));
      log('info', 'run_parked', { ...about, for: until.kind, own });
      if (own) this.#options.onParked({ namespace: claim.run.namespace, id: claim.run.id, until }, requests);
      return;
    }
    if (outcome.why !== 'draining') log('warn', 'run_again', { ...about, why: outcome.why });
    if (outcome.pause) this.#pause(outcome.why);
    if (outcome.holds === 'namespace') this.#hold(claim.run.namespace);
    if (outcome.counts && this.#isOpen) await this.#wait(backoffMs(FAULTS, claim.attempt, Math), signal);
    const { counts, why } = outcome;
    const reason = why === 'draining' ? null : why;
    await this.#store(() => queue.release(claim, { counts, reason }));
  }

  /** Retries the write of an outcome until it succeeds; until then only the journal has the outcome. */
  async #store(write: () => Promise<boolean>): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        return await write();
      } catch (error) {
        this.#options.log('error', 'not_stored', { message: errorText(error) });
        if (!this.#isOpen) return false;
        await this.#wait(backoffMs(FAULTS, tries, Math), null);
      }
    }
  }

  /** Concurrent failures count as one, so that each does not double the pause. */
  #pause(why: string): void {
    if (this.problem() !== null) return;
    this.#pausedFor = why;
    this.#batch = 1;
    this.#pausedUntil = performance.now() + backoffMs(PAUSES, ++this.#pauses, Math);
  }

  /** After a pause one run is started, then two, then four, to not exhaust the resource again. */
  #startSlowly(): void {
    if (this.problem() !== null) return;
    this.#batch *= 2;
    this.#pausedFor = null;
    this.#pausedUntil = performance.now() + STEP_MS;
    this.#again = true;
  }

  /** Claims no run of the namespace for a while: the queue would return the same run at once. Other nodes may have room. */
  #hold(namespace: string): void {
    const { failures, timer } = this.#holds.get(namespace) ?? { failures: 0, timer: null };
    if (timer !== null || !this.#isOpen) return;
    const hold: Hold = { failures: failures + 1, timer: null };
    const end = () => {
      hold.timer = null;
      this.fill();
    };
    hold.timer = setTimeout(end, backoffMs(HOLDS, hold.failures, Math)).unref();
    this.#holds.set(namespace, hold);
  }

  #wait(ms: number, signal: AbortSignal | null): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal?.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** In parallel: one slow renewal must not let other leases expire. */
  async #renew(): Promise<void> {
    const { queue, leaseMs } = this.#options;
    const renew = async ({ claim, stop }: Running) => {
      const own = await queue.renew(claim, leaseMs).catch(() => true);
      if (!own) stop.abort('lost' satisfies StopReason);
    };
    await Promise.all([...this.#running.values()].map(renew));
  }
}

/** Runs that a stop cancels are claimed, and end before they start. */
function isHeldBy(stop: StopRecord | null): boolean {
  return stop !== null && stop.effect !== 'cancel';
}
