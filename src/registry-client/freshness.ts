import { errorText } from '../base/errors.ts';
import type { RegistryEnvironment } from './environment.ts';
import { RegistryRefused } from './source.ts';

/**
 * `starting`: no snapshot yet. `degraded`: the last attempt to talk to the source failed, the old snapshot serves.
 * `refused`: the source does not accept this node, the old snapshot serves for a short time. `stale`: it is older than
 * max_staleness_ms, or the time after a refusal is over, and policy refuses it.
 */
export type RegistryState = 'starting' | 'ready' | 'degraded' | 'refused' | 'stale';

/** What a clock that is kept right by the network may be set back by. */
const CLOCK_STEP_MS = 1_000;

/** How sure the cache can be of its snapshot. */
export class Freshness {
  readonly #environment: RegistryEnvironment;
  readonly #maxStalenessMs: number | null;
  readonly #refusalGraceMs: number;
  #confirmed: { readonly wallMs: number; readonly monotonicMs: number } | null = null;
  /** When the source first refused this node; a source that is merely out of reach afterwards does not take it back. */
  #refusedAtMs: number | null = null;
  #lastError: string | null = null;

  constructor(environment: RegistryEnvironment, maxStalenessMs: number | null, refusalGraceMs: number) {
    this.#environment = environment;
    this.#maxStalenessMs = maxStalenessMs;
    this.#refusalGraceMs = refusalGraceMs;
  }

  /** The source just said that the snapshot is its newest revision. */
  confirm(): void {
    this.#confirmed = { wallMs: this.#environment.now(), monotonicMs: this.#environment.monotonic() };
    this.#lastError = null;
    this.#refusedAtMs = null;
  }

  /** The snapshot is one that the source confirmed at `wallMs`, before this process began. */
  assume(wallMs: number): void {
    this.#confirmed = { wallMs, monotonicMs: this.#environment.monotonic() - (this.#environment.now() - wallMs) };
  }

  fail(error: unknown): void {
    this.#lastError = errorText(error);
    if (error instanceof RegistryRefused) this.#refusedAtMs ??= this.#environment.monotonic();
  }

  get state(): RegistryState {
    if (this.#confirmed === null) return 'starting';
    if (this.isStale) return 'stale';
    if (this.#refusedAtMs !== null) return 'refused';
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

  get isRefused(): boolean {
    return this.#refusedAtMs !== null;
  }

  get lastError(): string | null {
    return this.#lastError;
  }

  /** Until the snapshot becomes stale, negative afterwards; null where it never does. */
  get leftMs(): number | null {
    const age = this.ageMs;
    if (age === null) return null;
    const fresh = this.#maxStalenessMs === null ? null : this.#maxStalenessMs - age;
    if (this.#refusedAtMs === null) return fresh;
    const accepted = this.#refusedAtMs + this.#refusalGraceMs - this.#environment.monotonic();
    return fresh === null ? accepted : Math.min(fresh, accepted);
  }
}
