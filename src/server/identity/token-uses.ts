import { errorText } from '../../base/errors.ts';
import type { ServiceLog } from '../log/service-log.ts';
import type { TokenUse } from '../records/token.ts';
import type { RegistryStore, StoreChange } from '../store/store.ts';

/** Precision of the last-use time: a call must not cause a write. */
const WRITE_EVERY_MS = 5 * 60_000;

interface TokenUsesOptions {
  readonly store: RegistryStore<TokenUse>;
  /** Whether a token of this name exists. */
  readonly isToken: (name: string) => boolean;
  readonly log: ServiceLog;
  /** @default 5 minutes */
  readonly writeEveryMs?: number;
}

/** Last use of each token: in memory, written periodically and on close. */
export class TokenUses {
  readonly #options: TokenUsesOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #seen = new Map<string, number>();
  #unwritten = new Set<string>();
  #writing: Promise<void> = Promise.resolve();

  constructor(options: TokenUsesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.write(), options.writeEveryMs ?? WRITE_EVERY_MS);
    this.#timer.unref();
  }

  async open(): Promise<void> {
    for (const { name, last_used_at_ms } of (await this.#options.store.list()).records) {
      this.#seen.set(name, last_used_at_ms);
    }
  }

  record(name: string): void {
    this.#seen.set(name, Date.now());
    this.#unwritten.add(name);
  }

  /** Null: never, or not known. */
  lastUse(name: string): number | null {
    return this.#seen.get(name) ?? null;
  }

  /** Writes pending changes. A failed write is retried with the next one. */
  write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.write();
  }

  async #write(): Promise<void> {
    const { store, isToken, log } = this.#options;
    const used = this.#unwritten;
    this.#unwritten = new Set();
    try {
      const gone = (await store.list()).records.filter(({ name }) => !isToken(name));
      const changes: StoreChange<TokenUse>[] = [
        ...gone.map(({ name }) => ({ remove: name })),
        ...[...used].filter(isToken).map((name) => ({
          upsert: { name, last_used_at_ms: this.#seen.get(name) ?? 0, updated_at_ms: 0, mod_revision: 0 },
        })),
      ];
      for (const name of [...this.#seen.keys()]) if (!isToken(name)) this.#seen.delete(name);
      if (changes.length > 0) await store.apply(changes);
    } catch (error) {
      for (const name of used) this.#unwritten.add(name);
      log('warn', 'token_uses_not_written', { tokens: used.size, message: errorText(error) });
    }
  }
}
