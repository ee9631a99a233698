import { setTimeout as delay } from 'node:timers/promises';
import { type Approval, isClosed } from '../../server/records/approval.ts';
import { type RegistryStore, StoreError } from '../../server/store/store.ts';

/** The timer is set again at least this often, because the wall clock may be set. */
const LONGEST_PAUSE_MS = 30_000;
const SHORTEST_PAUSE_MS = 10;
/** After a watch that broke, or a write that failed. */
const RETRY_MS = 500;

export interface OpenApprovalsOptions {
  /** Of requests that are closed: how many and for how long they are kept. */
  readonly keepMs: number;
  readonly maxKept: number;
  readonly now: () => number;
  /** Ends one whose time is over. */
  readonly timely: (approval: Approval) => Promise<unknown>;
}

/** Index of the requests in a store, including those of other registries. Ends what expires and removes what is old. */
export class OpenApprovals {
  readonly #store: RegistryStore<Approval>;
  readonly #options: OpenApprovalsOptions;
  /** Those of which something can still become. */
  readonly #open = new Map<string, Approval>();
  /** The others, oldest first. */
  readonly #closed = new Set<string>();
  #timer: NodeJS.Timeout | null = null;
  readonly #ended = new AbortController();

  constructor(store: RegistryStore<Approval>, options: OpenApprovalsOptions) {
    this.#store = store;
    this.#options = options;
  }

  /** Takes up what an earlier process left, and what others write from here on. */
  async start(revision: number, records: readonly Approval[]): Promise<void> {
    const byAge = [...records].sort((a, b) => a.updated_at_ms - b.updated_at_ms);
    for (const approval of byAge) this.#remember(approval);
    await this.#sweep();
    void this.#follow(revision);
  }

  close(): void {
    this.#ended.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  get open(): Iterable<Approval> {
    return this.#open.values();
  }

  get waiting(): number {
    let count = 0;
    for (const { status } of this.#open.values()) if (status === 'waiting') count += 1;
    return count;
  }

  openOne(id: string): Approval | undefined {
    return this.#open.get(id);
  }

  /** It was written just now. */
  remember(approval: Approval): void {
    this.#remember(approval);
    this.#arm();
  }

  #remember(approval: Approval): void {
    const { approval_id: id } = approval;
    if (!isClosed(approval)) {
      this.#open.set(id, approval);
      return;
    }
    this.#open.delete(id);
    this.#closed.add(id);
  }

  /** What others write to the same store is remembered too: they may decide, and this ends what is due. */
  async #follow(since: number): Promise<void> {
    const { signal } = this.#ended;
    for (let at = since; !signal.aborted; ) {
      try {
        for await (const { revision, upserts, deletes } of this.#store.watch(at, signal)) {
          at = revision;
          for (const id of deletes) this.#forget(id);
          for (const approval of upserts) this.#remember(approval);
          this.#arm();
        }
      } catch (error) {
        if (error instanceof StoreError && error.code === 'closed') return;
        await delay(RETRY_MS, undefined, { signal }).catch(() => {});
        at = 0;
      }
    }
  }

  #forget(id: string): void {
    this.#open.delete(id);
    this.#closed.delete(id);
  }

  #arm(leastMs = SHORTEST_PAUSE_MS): void {
    if (this.#ended.signal.aborted) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const now = this.#options.now();
    let due = now + LONGEST_PAUSE_MS;
    for (const { expires_at_ms: expiresAtMs } of this.#open.values()) due = Math.min(due, expiresAtMs);
    const sweep = () => void this.#sweep().catch(() => this.#arm(RETRY_MS));
    this.#timer = setTimeout(sweep, Math.max(leastMs, due - now));
    this.#timer.unref();
  }

  /** Ends what is due, and lets go what is old. Where the store cannot be written, it is tried again. */
  async #sweep(): Promise<void> {
    let isStored = true;
    for (const approval of [...this.#open.values()]) {
      await this.#options.timely(approval).catch((error: unknown) => {
        if (!(error instanceof StoreError)) throw error;
        isStored = false;
      });
    }
    const { keepMs, maxKept, now } = this.#options;
    const old: string[] = [];
    for (const id of this.#closed) {
      const approval = await this.#store.get(id);
      const surplus = this.#closed.size - old.length > maxKept;
      if (approval !== null && !surplus && now() - approval.updated_at_ms < keepMs) break;
      old.push(id);
    }
    const there = [];
    for (const id of old) if ((await this.#store.get(id)) !== null) there.push({ remove: id });
    if (there.length > 0) await this.#store.apply(there);
    for (const id of old) this.#closed.delete(id);
    this.#arm(isStored ? SHORTEST_PAUSE_MS : RETRY_MS);
  }
}
