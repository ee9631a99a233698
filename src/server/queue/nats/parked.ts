import type { ParkedFor } from '../run-queue.ts';
import type { RunEntry, StoredRun } from './run-entries.ts';

/** Null: it is not that claim's. One that somebody wants to end does not stay parked. */
export function parkedEntry(now: RunEntry, token: string, attempts: number, until: ParkedFor): StoredRun | null {
  if (now.claim !== token) return null;
  const left = { ...now, claim: null };
  if (now.cancel) return { ...left, run: { ...now.run, status: 'queued', node: null, attempts, status_reason: null } };
  return {
    ...left,
    parkedFor: until,
    run: { ...now.run, ...{ parked_for: until }, status: 'parked', node: null, attempts, status_reason: null },
  };
}

/** Null: it is not parked. */
export function wokenEntry(now: RunEntry, wantedBy: string | null): StoredRun | null {
  if (now.run.status !== 'parked') return null;
  return { ...now, parkedFor: null, wantedBy, run: { ...now.run, ...{ parked_for: null }, status: 'queued' } };
}

/** So often it is given back for the node that wants it; then whoever has a slot takes it. */
const WANTED_TIMES = 20;

/** Counted, not timed: the clocks of nodes may differ. */
export function isWantedElsewhere({ wantedBy = null }: RunEntry, node: string, times: number): boolean {
  return wantedBy !== null && wantedBy !== node && times <= WANTED_TIMES;
}
