import { type Backoff, backoffMs } from '../../base/backoff.ts';
import { errorText } from '../../base/error-text.ts';
import { Listeners } from '../../base/listeners.ts';
import type {
  ApprovalPort,
  AskedApproval,
  DecidedApproval,
  FiledApproval,
  NodeApprovals,
} from '../../registry-client/approval-port.ts';
import type { BoundCall } from '../../server/records/approval.ts';

const backoff: Backoff = { firstMs: 100, maxMs: 5_000 };
const ATTEMPT_MS = 10_000;
/** Requests of runs that wait here; there are no more than a node has places for runs, each with some. */
const MAX_ASKED = 100_000;

/** `begun`: what is decided is heard of from now on. `lost`: it is not. */
export type DecisionNews = DecidedApproval | 'begun' | 'lost';

/** The requests of all runs of a node over one connection and one watch, however many wait. */
export class SharedApprovals implements ApprovalPort {
  readonly #remote: NodeApprovals;
  readonly #say: (text: string) => void;
  readonly #news = new Listeners<DecisionNews>();
  readonly #closed = new AbortController();
  /** What was asked and waits, by the id of its request. */
  readonly #asked = new Map<string, AskedApproval>();
  #isUp = false;
  #following: Promise<void> | null = null;

  constructor(remote: NodeApprovals, say: (text: string) => void) {
    this.#remote = remote;
    this.#say = say;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Told of every decision, and when decisions are heard of. The returned function ends that. */
  listen(listener: (news: DecisionNews) => void): () => void {
    this.#following ??= this.#follow();
    return this.#news.add(listener);
  }

  async open(asked: AskedApproval, signal: AbortSignal): Promise<FiledApproval> {
    const filed = await this.#remote.open(asked, signal);
    if (filed.status === 'waiting' && this.#asked.size < MAX_ASKED) this.#asked.set(filed.id, asked);
    return filed;
  }

  async *watch(run: string, signal: AbortSignal): AsyncGenerator<FiledApproval | null> {
    const arrived: (FiledApproval | 'begun' | 'lost')[] = this.#isUp ? ['begun'] : [];
    let wake = () => {};
    const stop = this.listen((news) => {
      if (typeof news !== 'string' && news.run !== run) return;
      arrived.push(news);
      wake();
    });
    const end = () => wake();
    signal.addEventListener('abort', end, { once: true });
    try {
      while (!signal.aborted) {
        const next = arrived.shift();
        if (next === 'lost') throw new Error('the registry is unreachable');
        if (next === 'begun') yield* this.#asTheyAre(run, signal);
        else if (next !== undefined) yield next;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      stop();
      signal.removeEventListener('abort', end);
      if (signal.aborted) this.#forget(run);
    }
  }

  claim(id: string, claim: string, call: BoundCall, argumentsHash: string, signal: AbortSignal) {
    return this.#remote.claim(id, claim, call, argumentsHash, signal);
  }

  withdraw(id: string, reason: string, signal: AbortSignal): Promise<void> {
    this.#asked.delete(id);
    return this.#remote.withdraw(id, reason, signal);
  }

  withdrawAll(namespace: string, run: string, reason: string, signal: AbortSignal): Promise<void> {
    return this.#remote.withdrawAll(namespace, run, reason, signal);
  }

  waiting(ids: readonly string[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    return this.#remote.waiting(ids, signal);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#following;
  }

  /** What became of the run's requests while nobody listened. */
  async *#asTheyAre(run: string, signal: AbortSignal): AsyncGenerator<FiledApproval | null> {
    yield null;
    const own = [...this.#asked].filter(([, { call }]) => call.run === run);
    if (own.length === 0) return;
    const attempt = AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_MS)]);
    const waiting = await this.#remote.waiting(
      own.map(([id]) => id),
      attempt,
    );
    for (const [id, asked] of own) {
      if (waiting.has(id)) continue;
      this.#asked.delete(id);
      const filed = await this.#remote.open(asked, attempt);
      // Where it is another by now, the one that was waited for has no answer.
      yield filed.id === id ? filed : { ...filed, id, status: 'withdrawn' };
    }
  }

  #forget(run: string): void {
    for (const [id, { call }] of this.#asked) if (call.run === run) this.#asked.delete(id);
  }

  async #follow(): Promise<void> {
    const { signal } = this.#closed;
    for (let failures = 0; !signal.aborted; ) {
      try {
        for await (const decided of this.#remote.decided(signal)) {
          if (failures > 0) this.#say('connection to the registry for approvals restored');
          failures = 0;
          if (!this.#isUp) {
            this.#isUp = true;
            this.#news.tell('begun');
          }
          if (decided === null) continue;
          this.#asked.delete(decided.id);
          this.#news.tell(decided);
        }
      } catch (error) {
        failures += 1;
        if (failures === 1 && !signal.aborted) {
          this.#say(`connection to the registry for approvals lost: ${errorText(error)}`);
        }
      }
      this.#isUp = false;
      this.#news.tell('lost');
      if (!signal.aborted) await pause(backoffMs(backoff, Math.max(1, failures), Math), signal);
    }
  }
}

/** Or less, if the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
