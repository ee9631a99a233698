import type { Backoff } from '../base/timing.ts';
import type { RegistryEnvironment } from './environment.ts';

export interface SyncTiming {
  /** @default 30 s */
  readonly pollMinMs: number;
  /** @default 120 s */
  readonly pollMaxMs: number;
  /** The longest that one full list may take. @default 10 s */
  readonly listTimeoutMs: number;
  /** Pauses after failures: a registry that is back is found within seconds. @default from 200 ms to 5 s */
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

/** A snapshot must be confirmed at least this often within the time after which it counts as stale. */
const CONFIRMATIONS_PER_STALENESS = 3;

/** With a limit on staleness the polls come often enough to keep a healthy cache below it. */
export function timingFor(timing: SyncTiming, maxStalenessMs: number | null): SyncTiming {
  if (maxStalenessMs === null) return timing;
  const pollMaxMs = Math.min(timing.pollMaxMs, Math.max(1, Math.floor(maxStalenessMs / CONFIRMATIONS_PER_STALENESS)));
  return { ...timing, pollMaxMs, pollMinMs: Math.min(timing.pollMinMs, pollMaxMs) };
}

export function pollDelayMs(timing: SyncTiming, environment: RegistryEnvironment): number {
  return Math.round(timing.pollMinMs + (timing.pollMaxMs - timing.pollMinMs) * environment.random());
}
