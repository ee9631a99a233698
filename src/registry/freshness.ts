import type { RegistryEnvironment } from './environment.ts';

/**
 * `starting`: no snapshot yet. `degraded`: the last attempt to talk to the source failed, the old snapshot serves.
 * `stale`: it is older than max_staleness_ms and policy refuses it.
 */
export type RegistryState = 'starting' | 'ready' | 'degraded' | 'stale';

/** How sure the cache can be of its snapshot. */
export class Freshness {
  readonly #environment: RegistryEnvironment;
  readonly #maxStalenessMs: number | null;
  #confirmedAtMs: number | null = null;
  #lastError: string | null = null;

  constructor(environment: RegistryEnvironment, maxStalenessMs: number | null) {
    this.#environment = environment;
    this.#maxStalenessMs = maxStalenessMs;
  }

  /** The source just said that the snapshot is its newest revision. */
  confirm(): void {
    this.#confirmedAtMs = this.#environment.now();
    this.#lastError = null;
  }

  fail(error: unknown): void {
    this.#lastError = error instanceof Error ? error.message : String(error);
  }

  get state(): RegistryState {
    if (this.#confirmedAtMs === null) return 'starting';
    if (this.isStale) return 'stale';
    return this.#lastError === null ? 'ready' : 'degraded';
  }

  get isStale(): boolean {
    const left = this.leftMs;
    return left !== null && left < 0;
  }

  get ageMs(): number | null {
    return this.#confirmedAtMs === null ? null : Math.max(0, this.#environment.now() - this.#confirmedAtMs);
  }

  get lastError(): string | null {
    return this.#lastError;
  }

  /** Until the snapshot becomes stale, negative afterwards; null where it never does. */
  get leftMs(): number | null {
    const age = this.ageMs;
    return this.#maxStalenessMs === null || age === null ? null : this.#maxStalenessMs - age;
  }
}
