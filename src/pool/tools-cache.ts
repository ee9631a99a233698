import { untilAborted } from '../base/abort.ts';
import { McpBudgetError, McpError, McpTimeoutError } from './errors.ts';
import type { RawListing } from './list-tools.ts';
import type { PoolLimits } from './pool-options.ts';
import { abortReason, type ServerSession } from './session.ts';
import { TimeBudget } from './time-budget.ts';
import type { CompiledToolList } from './tool-list.ts';

export interface ToolsCacheDeps {
  readonly serverId: string;
  readonly limits: PoolLimits;
  /** Hands `work` an open session; connecting has a deadline of its own. */
  withSession<T>(work: (session: ServerSession) => Promise<T>): Promise<T>;
  list(session: ServerSession, signal: AbortSignal): Promise<RawListing>;
  /** Must give `before` back where the listing says the same. */
  compile(listing: RawListing, before: CompiledToolList | null): Promise<CompiledToolList>;
  failed(error: McpError): void;
  readonly now: () => number;
}

/**
 * The tools of one server. What each guest may see of them is decided above, so the list itself is shared by all.
 * Concurrent readers share one listing, and the abort of one reader leaves it to the others.
 */
export class ToolsCache {
  readonly #deps: ToolsCacheDeps;
  #current: CompiledToolList | null = null;
  #freshUntilMs = 0;
  #failure: { error: McpError; untilMs: number } | null = null;
  #listing: { readonly result: Promise<CompiledToolList>; asked: boolean } | null = null;
  /** Counts what made the list doubtful; a listing that began before the last of these is not kept. */
  #changes = 0;

  constructor(deps: ToolsCacheDeps) {
    this.#deps = deps;
  }

  /** Tools of the last listing that worked; null before there was one. */
  get toolCount(): number | null {
    return this.#current?.list.tools.length ?? null;
  }

  /** The next reader asks the server again. */
  invalidate(): void {
    this.#changes += 1;
    this.#freshUntilMs = 0;
    this.#failure = null;
    // One that still waits for its connection will ask late enough.
    if (this.#listing?.asked) this.#listing = null;
  }

  async get(signal: AbortSignal | null): Promise<CompiledToolList> {
    const now = this.#deps.now();
    if (this.#current !== null && now < this.#freshUntilMs) return this.#current;
    if (this.#failure !== null && now < this.#failure.untilMs) throw this.#failure.error;
    const { result } = this.#listing ?? this.#start();
    return untilAborted(result, signal, () => {
      throw abortReason(this.#deps.serverId, signal as AbortSignal);
    });
  }

  #start(): { readonly result: Promise<CompiledToolList>; asked: boolean } {
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

  async #list(asking: () => void): Promise<CompiledToolList> {
    const { serverId, limits, now } = this.#deps;
    try {
      return await this.#deps.withSession(async (session) => {
        asking();
        const changes = this.#changes;
        const { listTimeoutMs } = limits;
        const what = `tools/list of server "${serverId}"`;
        const deadline = new TimeBudget(listTimeoutMs, null, () => new McpTimeoutError(serverId, listTimeoutMs, what));
        const raw = await deadline.spend((signal) => this.#deps.list(session, signal));
        const compiled = await this.#deps.compile(raw, this.#current);
        if (changes === this.#changes) {
          this.#current = compiled;
          this.#freshUntilMs = now() + limits.toolsTtlMs;
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
