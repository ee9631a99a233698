import type { ApprovalWait } from '../agent/approvals/client.ts';
import type { JsonValue } from '../base/json.ts';
import { redactArguments } from '../server/audit/redact-arguments.ts';
import type { ParkedFor } from '../server/records/run.ts';

/** A call of a run that waits for somebody's yes. */
export interface WaitingApproval {
  /** The id of the request. */
  readonly request: string;
  readonly server: string;
  readonly tool: string;
  readonly ordinal: string;
  /** Why somebody is asked. */
  readonly cause: string;
  /** Masked and cut, as in the audit trail. */
  readonly arguments: JsonValue;
}

/** For a run that may be given up while it waits, and be taken up again from its journal. */
export interface LongWaitsOption {
  /** A run that waits longer than this, with nothing else under way, is given up: `parked`. */
  readonly parkAfterMs: number;
  /** Told what somebody has to decide about, whenever that changes; empty: nothing any more. */
  readonly onWaiting: (approvals: readonly WaitingApproval[]) => void;
  /** What a run whose signal was aborted for this reason is parked for; null: it is interrupted. @default null */
  readonly parkedBy?: (reason: unknown) => ParkedFor | null;
  /** It is given up until then. `requests`: all that it has asked people. */
  readonly onPark: (until: ParkedFor, requests: readonly string[]) => void;
}

/** The run, as far as its waits look at it. */
export interface WaitingRun {
  /** How many things of it are under way that would have to be done again; approvals that wait are not among them. */
  underway(waiting: number): number;
  /** Milliseconds that its guest has computed; null: nobody can tell. */
  computedMs(): Promise<number | null>;
  /** Ends the guest. */
  park(): void;
}

/** A guest that computes is not given up: so long it is looked at, and so much is nothing. */
const LOOK_MS = 100;
const IDLE_SHARE = 0.2;
/** Until the next try. */
const AGAIN_MS = 250;
/** A run that waits for a time and for people is looked after so often: it may have missed what they decided. */
const MIXED_MS = 10 * 60_000;
/** Ids of more requests have no room where parked runs are kept. */
const MAX_REQUESTS = 64;

interface Sleep {
  readonly atMs: number;
}

/** What a run waits for that may take long, and when it is given up for it. */
export class LongWaits {
  readonly #option: LongWaitsOption;
  readonly #run: WaitingRun;
  readonly #approvals = new Map<string, { readonly wait: ApprovalWait; readonly since: number }>();
  readonly #sleeps = new Map<number, Sleep>();
  /** Whether it still waits for a client of its user streams and for nothing else; null: it did not say so. */
  #isAtRest: (() => boolean) | null = null;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(option: LongWaitsOption, run: WaitingRun) {
    this.#option = option;
    this.#run = run;
  }

  /** Timers of the guest that are told of, and when each fires. */
  get sleeps(): readonly (readonly [timer: number, atMs: number])[] {
    return [...this.#sleeps].map(([id, { atMs }]) => [id, atMs]);
  }

  approval(wait: ApprovalWait): () => void {
    if (this.#isClosed) return () => {};
    this.#approvals.set(wait.id, { wait, since: performance.now() });
    this.#tell();
    this.#look(this.#option.parkAfterMs);
    return () => {
      if (this.#isClosed || !this.#approvals.delete(wait.id)) return;
      this.#tell();
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

  /** It has waited long, and goes on with a sleep that is over, or when it is told something: `isStill`, it was not. */
  rests(isStill: () => boolean): void {
    if (this.#isClosed) return;
    this.#isAtRest = isStill;
    this.#look(0);
  }

  /** Gives the run up at once, whatever it does. */
  stop(until: ParkedFor): void {
    if (!this.#isClosed) this.#park(until);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #tell(): void {
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
    this.#isAtRest = null; // it says so again
    if (this.#approvals.size > 0 || this.#sleeps.size > 0) this.#look(AGAIN_MS);
  }

  #mayPark(): boolean {
    if (this.#isClosed || this.#run.underway(this.#approvals.size) > 0) return false;
    if (this.#approvals.size > MAX_REQUESTS) return false;
    const { parkAfterMs } = this.#option;
    const sleeps = [...this.#sleeps.values()];
    // Every one of them: the run goes on with the first that is over.
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

  /** In one turn: what is decided from here on is for whoever takes the run up again. */
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
