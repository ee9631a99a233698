import type { RunRecord } from '../../protocol/run.ts';

/** A row of the table of runs, as SQLite gives it. */
export interface RunRow extends Omit<RunRecord, 'exit' | 'cost'> {
  readonly seq: number;
  readonly exit: string | null;
  readonly cost: string | null;
  readonly cancel: number;
}

export function toRecord({ seq: _, cancel: __, exit, cost, ...row }: RunRow): RunRecord {
  return {
    ...row,
    exit: exit === null ? null : (JSON.parse(exit) as RunRecord['exit']),
    cost: cost === null ? null : (JSON.parse(cost) as RunRecord['cost']),
  };
}
