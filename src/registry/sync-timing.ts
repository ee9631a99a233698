import type { RegistryEnvironment } from './environment.ts';

export interface SyncTiming {
  /** @default 30 s */
  readonly pollMinMs: number;
  /** @default 120 s */
  readonly pollMaxMs: number;
  /** The longest that one full list may take. @default 10 s */
  readonly listTimeoutMs: number;
  /** The first pause after a failure; each further one doubles it. @default 200 ms */
  readonly backoffMinMs: number;
  /** @default 30 s */
  readonly backoffMaxMs: number;
}

export const defaultSyncTiming: SyncTiming = Object.freeze({
  pollMinMs: 30_000,
  pollMaxMs: 120_000,
  listTimeoutMs: 10_000,
  backoffMinMs: 200,
  backoffMaxMs: 30_000,
});

/** A snapshot must be confirmed at least this often within the time after which it counts as stale. */
const CONFIRMATIONS_PER_STALENESS = 3;

/** With a limit on staleness the polls come often enough to keep a healthy cache below it. */
export function timingFor(timing: SyncTiming, maxStalenessMs: number | null): SyncTiming {
  if (maxStalenessMs === null) return timing;
  const pollMaxMs = Math.min(timing.pollMaxMs, Math.max(1, Math.floor(maxStalenessMs / CONFIRMATIONS_PER_STALENESS)));
  return { ...timing, pollMaxMs, pollMinMs: Math.min(timing.pollMinMs, pollMaxMs) };
}

/** Between half and all of min · 2^(failures - 1), so that nodes that failed together do not come back together. */
export function backoffMs(timing: SyncTiming, failures: number, environment: RegistryEnvironment): number {
  const full = Math.min(timing.backoffMaxMs, timing.backoffMinMs * 2 ** Math.max(0, failures - 1));
  return Math.round(full * (0.5 + 0.5 * environment.random()));
}

export function pollDelayMs(timing: SyncTiming, environment: RegistryEnvironment): number {
  return Math.round(timing.pollMinMs + (timing.pollMaxMs - timing.pollMinMs) * environment.random());
}
