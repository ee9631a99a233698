import { errorText } from '../base/error-text.ts';
import type { RegistryEnvironment } from './environment.ts';

/**
 * `starting`: no snapshot yet. `degraded`: the last attempt to talk to the source failed, the old snapshot serves.
 * `stale`: it is older than max_staleness_ms and policy refuses it.
 */
export type RegistryState = 'starting' | 'ready' | 'degraded' | 'stale';

/** What a clock that is kept right by the network may be set back by. */
const CLOCK_STEP_MS = 1_000;

/** How sure the cache can be of its snapshot. */
export class Freshness {
  readonly #environment: RegistryEnvironment;
  readonly #maxStalenessMs: number | null;
  #confirmed: { readonly wallMs: number; readonly monotonicMs: number } | null = null;
  #lastError: string | null = null;

  constructor(environment: RegistryEnvironment, maxStalenessMs: number | null) {
    this.#environment = environment;
    this.#maxStalenessMs = maxStalenessMs;
  }

  /** The source just said that the snapshot is its newest revision. */
  confirm(): void {
    this.#confirmed = { wallMs: this.#environment.now(), monotonicMs: this.#environment.monotonic() };
    this.#lastError = null;
  }

  fail(error: unknown): void {
    this.#lastError = errorText(error);
  }

  get state(): RegistryState {
    if (this.#confirmed === null) return 'starting';
    if (this.isStale) return 'stale';
    return this.#lastError === null ? 'ready' : 'degraded';
  }

  get isStale(): boolean {
    const left = this.leftMs;
    return left !== null && left < 0;
  }

  /**
   * The larger of what both clocks say: one may have been set back, the other stands still while the machine sleeps.
   * Where the wall's says that the snapshot comes from the future, nobody knows how old it is.
   */
  get ageMs(): number | null {
    if (this.#confirmed === null) return null;
    const wallMs = this.#environment.now() - this.#confirmed.wallMs;
    if (wallMs < -CLOCK_STEP_MS) return Number.MAX_SAFE_INTEGER;
    return Math.max(wallMs, this.#environment.monotonic() - this.#confirmed.monotonicMs, 0);
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
