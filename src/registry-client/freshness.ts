import { errorText } from '../base/errors.ts';
import type { Backoff } from '../base/timing.ts';
import type { RegistryEnvironment } from './lifetime.ts';
import { RegistryRefused } from './source.ts';

/**
 * `starting`: no snapshot yet. `degraded`: the last attempt to talk to the source failed, the old snapshot serves.
 * `refused`: the source does not accept this node, the old snapshot serves for a short time. `stale`: it is older than
 * max_staleness_ms, or the time after a refusal is over, and policy refuses it.
 */
export type RegistryState = 'starting' | 'ready' | 'degraded' | 'refused' | 'stale';

/** How far a synchronized wall clock may be set back. */
const CLOCK_STEP_MS = 1_000;

/** How long ago the source confirmed the snapshot, and the state that follows from it. */
export class Freshness {
  readonly #environment: RegistryEnvironment;
  readonly #maxStalenessMs: number | null;
  readonly #refusalGraceMs: number;
  #confirmed: { readonly wallMs: number; readonly monotonicMs: number } | null = null;
  /** When the source first refused this node. A later connection failure does not reset it. */
  #refusedAtMs: number | null = null;
  #lastError: string | null = null;

  constructor(environment: RegistryEnvironment, maxStalenessMs: number | null, refusalGraceMs: number) {
    this.#environment = environment;
    this.#maxStalenessMs = maxStalenessMs;
    this.#refusalGraceMs = refusalGraceMs;
  }

  /** The source confirmed that the snapshot is its newest revision. */
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
   * The larger age of both clocks: the wall clock may have been set back, the monotonic one stops while the machine sleeps. If
   * the wall clock says that the snapshot is from the future, its age is unknown and counts as infinite.
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

  /** Time until the snapshot becomes stale, negative afterwards; null: never. */
  get leftMs(): number | null {
    const age = this.ageMs;
    if (age === null) return null;
    const fresh = this.#maxStalenessMs === null ? null : this.#maxStalenessMs - age;
    if (this.#refusedAtMs === null) return fresh;
    const accepted = this.#refusedAtMs + this.#refusalGraceMs - this.#environment.monotonic();
    return fresh === null ? accepted : Math.min(fresh, accepted);
  }
}

export interface SyncTiming {
  /** @default 30 s */
  readonly pollMinMs: number;
  /** @default 120 s */
  readonly pollMaxMs: number;
  /** Deadline of a full list. @default 10 s */
  readonly listTimeoutMs: number;
  /** Delays after failures. @default from 200 ms to 5 s */
  readonly backoff: Backoff;
  /** How long the snapshot serves a node whose token the registry refuses: it may have been revoked. @default 60 s */
  readonly refusalGraceMs: number;
}

export const defaultSyncTiming: SyncTiming = Object.freeze({
  pollMinMs: 30_000,
  pollMaxMs: 120_000,
  listTimeoutMs: 10_000,
  backoff: { firstMs: 200, maxMs: 5_000 },
  refusalGraceMs: 60_000,
});

/** Confirmations of a snapshot within the maximum staleness. */
const CONFIRMATIONS_PER_STALENESS = 3;

/** Limits the poll interval, so that a healthy cache stays below the maximum staleness. */
export function timingFor(timing: SyncTiming, maxStalenessMs: number | null): SyncTiming {
  if (maxStalenessMs === null) return timing;
  const pollMaxMs = Math.min(timing.pollMaxMs, Math.max(1, Math.floor(maxStalenessMs / CONFIRMATIONS_PER_STALENESS)));
  return { ...timing, pollMaxMs, pollMinMs: Math.min(timing.pollMinMs, pollMaxMs) };
}

export function pollDelayMs(timing: SyncTiming, environment: RegistryEnvironment): number {
  return Math.round(timing.pollMinMs + (timing.pollMaxMs - timing.pollMinMs) * environment.random());
}
