import { type ParkedFor, parkedFor, type RunRecord } from '../../protocol/run.ts';

/** A row of the table of runs, as SQLite gives it. */
export interface RunRow extends Omit<RunRecord, 'exit' | 'cost' | 'parked_for'> {
  readonly seq: number;
  readonly exit: string | null;
  readonly cost: string | null;
  readonly cancel: number;
  /** Only where it was asked for, of a run that is parked. */
  readonly until?: string | null;
}

export function toRecord({ seq: _, cancel: __, exit, cost, until = null, ...row }: RunRow): RunRecord {
  return {
    ...row,
    exit: exit === null ? null : (JSON.parse(exit) as RunRecord['exit']),
    cost: cost === null ? null : (JSON.parse(cost) as RunRecord['cost']),
    ...(until === null ? {} : { parked_for: toParkedFor(until) }),
  };
}

export const toParkedFor = (text: string): ParkedFor => parkedFor.parse(JSON.parse(text));
