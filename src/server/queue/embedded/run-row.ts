import { type ParkedFor, parkedFor, type RunRecord } from '../../records/run.ts';

/** A row of the table of runs, as SQLite gives it. */
export interface RunRow extends Omit<RunRecord, 'exit' | 'cost' | 'parked_for' | 'degraded'> {
  readonly seq: number;
  readonly exit: string | null;
  readonly cost: string | null;
  readonly degraded: string | null;
  readonly cancel: number;
  /** The epoch in which it was submitted; null: the first one. */
  readonly epoch: string | null;
  /** Only where it was asked for, of a run that is parked. */
  readonly until?: string | null;
}

export function toRecord({
  seq: _,
  cancel: __,
  epoch: ___,
  exit,
  cost,
  degraded,
  until = null,
  ...row
}: RunRow): RunRecord {
  return {
    ...row,
    exit: exit === null ? null : (JSON.parse(exit) as RunRecord['exit']),
    cost: cost === null ? null : (JSON.parse(cost) as RunRecord['cost']),
    degraded: degraded === null ? null : (JSON.parse(degraded) as RunRecord['degraded']),
    ...(until === null ? {} : { parked_for: toParkedFor(until) }),
  };
}

export const toParkedFor = (text: string): ParkedFor => parkedFor.parse(JSON.parse(text));
