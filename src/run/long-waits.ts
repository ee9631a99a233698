import type { ApprovalWait } from '../agent/approvals/client.ts';
import type { JsonValue } from '../base/json.ts';
import { redactArguments } from '../server/audit/redact.ts';
import type { ParkedFor } from '../server/records/run.ts';

/** A tool call that waits for an approval. */
export interface WaitingApproval {
  /** Id of the approval request. */
  readonly request: string;
  readonly server: string;
  readonly tool: string;
  readonly ordinal: string;
  /** Why an approval is needed. */
  readonly cause: string;
  /** Masked and truncated, as in the audit log. */
  readonly arguments: JsonValue;
}

/** Parking of a run during long waits; the run resumes from its journal. */
export interface LongWaitsOption {
  /** A run that waits longer than this, with nothing else in flight, is parked. */
  readonly parkAfterMs: number;
  /** Receives the pending approvals, whenever they change. */
  readonly onWaiting: (approvals: readonly WaitingApproval[]) => void;
  /** What a run is parked for when its signal is aborted with this reason; null: it is interrupted. @default null */
  readonly parkedBy?: (reason: unknown) => ParkedFor | null;
  /** Called when the run is parked. `requests`: its pending approval requests. */
  readonly onPark: (until: ParkedFor, requests: readonly string[]) => void;
}

/** What LongWaits needs from the run. */
export interface WaitingRun {
  /** Operations in flight that would have to be repeated; pending approvals are not counted. */
  underway(waiting: number): number;
  /** Milliseconds that the guest has computed; null: unknown. */
  computedMs(): Promise<number | null>;
  /** Ends the guest with the reason `parked`. */
  park(): void;
}

/** A guest that computes is not parked: observation time, and the share of it that counts as idle. */
const LOOK_MS = 100;
const IDLE_SHARE = 0.2;
/** Pause before the next check. */
const AGAIN_MS = 250;
/** A run that waits for both a timer and approvals is woken at least this often: it may have missed a decision. */
const MIXED_MS = 10 * 60_000;
/** Maximum of requests that a parked run may wait for. */
const MAX_REQUESTS = 64;

interface Sleep {
  readonly atMs: number;
}

/** Tracks the long waits of a run (approvals, timers, stream clients) and parks the run when it waits for nothing else. */
export class LongWaits {
  readonly #option: LongWaitsOption;
  readonly #run: WaitingRun;
  readonly #approvals = new Map<string, { readonly wait: ApprovalWait; readonly since: number }>();
  readonly #sleeps = new Map<number, Sleep>();
  /** Whether the guest still waits only for a stream client; null: it did not report such a wait. */
  #isAtRest: (() => boolean) | null = null;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(option: LongWaitsOption, run: WaitingRun) {
    this.#option = option;
    this.#run = run;
  }

  /** Reported timers of the guest, and when each fires. */
  get sleeps(): readonly (readonly [timer: number, atMs: number])[] {
    return [...this.#sleeps].map(([id, { atMs }]) => [id, atMs]);
  }

  approval(wait: ApprovalWait): () => void {
    if (this.#isClosed) return () => {};
    this.#approvals.set(wait.id, { wait, since: performance.now() });
    this.#notify();
    this.#look(this.#option.parkAfterMs);
    return () => {
      if (this.#isClosed || !this.#approvals.delete(wait.id)) return;
      this.#notify();
    };
  }

  sleep(timer: number, ms: number): void {
    if (this.#isClosed) return;
    this.#sleeps.set(timer, { atMs: Date.now() + ms });
    this.#look(0);
  }

  woke(timer: number): void {
    if (this.#isClosed) return;
    this.#sleeps.delete(timer);
    this.#isAtRest = null;
  }

  /** The guest waits for a stream client. `isStill`: it has received no message since. */
  rests(isStill: () => boolean): void {
    if (this.#isClosed) return;
    this.#isAtRest = isStill;
    this.#look(0);
  }

  /** Parks the run at once. */
  stop(until: ParkedFor): void {
    if (!this.#isClosed) this.#park(until);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #notify(): void {
    const approvals = [...this.#approvals.values()].map(({ wait: { id, request } }) => {
      const { server, tool, ordinal, cause } = request;
      const shown = redactArguments(request.arguments) as unknown as JsonValue;
      return { request: id, server, tool, ordinal, cause: cause.text, arguments: shown };
    });
    this.#option.onWaiting(approvals);
  }

  #look(inMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#consider(), inMs);
  }

  async #consider(): Promise<void> {
    const isIdle = this.#mayPark() && (await this.#isIdle());
    if (this.#isClosed) return;
    if (isIdle && this.#mayPark()) {
      this.#park();
      return;
    }
    this.#isAtRest = null; // the guest reports it again
    if (this.#approvals.size > 0 || this.#sleeps.size > 0) this.#look(AGAIN_MS);
  }

  #mayPark(): boolean {
    if (this.#isClosed || this.#run.underway(this.#approvals.size) > 0) return false;
    if (this.#approvals.size > MAX_REQUESTS) return false;
    const { parkAfterMs } = this.#option;
    const sleeps = [...this.#sleeps.values()];
    // All of them: the run continues with the first timer that fires.
    const isLong = sleeps.every(({ atMs }) => atMs - Date.now() >= parkAfterMs / 2);
    const since = Math.min(...[...this.#approvals.values()].map((approval) => approval.since));
    return isLong && (sleeps.length > 0 || this.#isAtRest?.() === true || performance.now() - since >= parkAfterMs - 1);
  }

  async #isIdle(): Promise<boolean> {
    const before = await this.#run.computedMs();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    const after = await this.#run.computedMs();
    return before === null || after === null || after - before <= LOOK_MS * IDLE_SHARE;
  }

  /** Synchronous: decisions from here on are for the resumed run. */
  #park(stopped: ParkedFor | null = null): void {
    this.close();
    for (const { wait } of this.#approvals.values()) wait.abandon();
    const requests = [...this.#approvals.keys()];
    this.#option.onPark(stopped ?? this.#until(requests), requests);
    this.#run.park();
  }

  #until(requests: readonly string[]): ParkedFor {
    if (this.#sleeps.size === 0) {
      return requests.length === 0 ? { kind: 'stream' } : { kind: 'approval', request: requests.join(' ') };
    }
    const first = Math.min(...[...this.#sleeps.values()].map(({ atMs }) => atMs));
    return { kind: 'time', atMs: requests.length === 0 ? first : Math.min(first, Date.now() + MIXED_MS) };
  }
}
