import { untilAborted } from '../../../base/abort.ts';
import { McpBudgetError, McpError, McpTimeoutError } from './errors.ts';
import type { PoolLimits } from './pool-options.ts';
import { abortReason, type ServerSession } from './session.ts';
import { TimeBudget } from './time-budget.ts';

/** What a server listed, before anybody looked at it. */
interface Listing {
  /** How long the server says that the list holds; null: it says nothing. */
  readonly ttlMs: number | null;
}

export interface ListCacheDeps<Raw extends Listing, List> {
  readonly serverId: string;
  /** The request, for messages. */
  readonly what: 'tools/list' | 'resources/list' | 'prompts/list';
  readonly limits: PoolLimits;
  /** Hands `work` an open session; connecting has a deadline of its own. */
  withSession<T>(work: (session: ServerSession) => Promise<T>): Promise<T>;
  list(session: ServerSession, signal: AbortSignal): Promise<Raw>;
  /** Must give `before` back where the listing says the same. */
  compile(listing: Raw, before: List | null): Promise<List>;
  failed(error: McpError): void;
  readonly now: () => number;
}

/**
 * One list of one server: its tools, its resources or its prompts. What each guest may see of it is decided above, so the
 * list itself is shared by all. Concurrent readers share one listing, and the abort of one reader leaves it to the others.
 */
export class ListCache<Raw extends Listing, List> {
  readonly #deps: ListCacheDeps<Raw, List>;
  #current: List | null = null;
  #freshUntilMs = 0;
  #failure: { error: McpError; untilMs: number } | null = null;
  #listing: { readonly result: Promise<List>; asked: boolean } | null = null;
  /** Counts what made the list doubtful; a listing that began before the last of these is not kept. */
  #changes = 0;

  constructor(deps: ListCacheDeps<Raw, List>) {
    this.#deps = deps;
  }

  /** The last listing that worked; null before there was one. */
  get last(): List | null {
    return this.#current;
  }

  /** The list, where nobody has to ask for it; null: {@link get} does. */
  get fresh(): List | null {
    return this.#deps.now() < this.#freshUntilMs ? this.#current : null;
  }

  /** The next reader asks the server again. */
  invalidate(): void {
    this.#changes += 1;
    this.#freshUntilMs = 0;
    this.#failure = null;
    // One that still waits for its connection will ask late enough.
    if (this.#listing?.asked) this.#listing = null;
  }

  async get(signal: AbortSignal | null): Promise<List> {
    const known = this.fresh;
    if (known !== null) return known;
    if (this.#failure !== null && this.#deps.now() < this.#failure.untilMs) throw this.#failure.error;
    const { result } = this.#listing ?? this.#start();
    return untilAborted(result, signal, () => {
      throw abortReason(this.#deps.serverId, signal as AbortSignal);
    });
  }

  #start(): { readonly result: Promise<List>; asked: boolean } {
    const asking = () => {
      listing.asked = true;
    };
    const result = this.#list(asking).finally(() => {
      if (this.#listing === listing) this.#listing = null;
    });
    const listing = { result, asked: false };
    this.#listing = listing;
    return listing;
  }

  async #list(asking: () => void): Promise<List> {
    const { serverId, limits, now } = this.#deps;
    try {
      return await this.#deps.withSession(async (session) => {
        asking();
        const changes = this.#changes;
        const { listTimeoutMs } = limits;
        const what = `${this.#deps.what} of server "${serverId}"`;
        const deadline = new TimeBudget(listTimeoutMs, null, () => new McpTimeoutError(serverId, listTimeoutMs, what));
        const raw = await deadline.spend((signal) => this.#deps.list(session, signal));
        const compiled = await this.#deps.compile(raw, this.#current);
        if (changes === this.#changes) {
          this.#current = compiled;
          this.#freshUntilMs = now() + ttlOf(raw, limits);
          this.#failure = null;
        }
        return compiled;
      });
    } catch (error) {
      // A full host says nothing about this server.
      if (!(error instanceof McpError) || error instanceof McpBudgetError) throw error;
      this.#failure = { error, untilMs: now() + limits.failureTtlMs };
      this.#deps.failed(error);
      throw error;
    }
  }
}

/** A server may say how long its list holds. Not at all would be a list for each call, and forever is no promise. */
function ttlOf({ ttlMs }: Listing, { toolsTtlMs, minToolsTtlMs, maxToolsTtlMs }: PoolLimits): number {
  return ttlMs === null ? toolsTtlMs : Math.min(Math.max(ttlMs, minToolsTtlMs), maxToolsTtlMs);
}
