import type { RunRecord } from '../server/records/run.ts';

/** What a node says of one of its runs. */
export interface RunReport
  extends Pick<
    RunRecord,
    | 'id'
    | 'namespace'
    | 'task'
    | 'revision'
    | 'status'
    | 'submitted_by'
    | 'submitted_at_ms'
    | 'started_at_ms'
    | 'ended_at_ms'
    | 'attempts'
    | 'exit'
    | 'status_reason'
    | 'degraded'
  > {
  /** Null: nothing is known of it. */
  readonly cost: { readonly model_calls: number; readonly tool_calls: number; readonly total_tokens: number } | null;
}

/** What a run did, as JSON of a `RunPicture`; null: there is none, and `problem` says why. */
export interface RunTimelineReport {
  readonly runId: string;
  readonly picture: string | null;
  readonly problem: string;
}

export interface RunsReport {
  readonly nodeId: string;
  /** Those that run, wait or are parked, and the last ones that ended; null: as in the report before. */
  readonly runs: readonly RunReport[] | null;
  readonly timelines: readonly RunTimelineReport[];
}

export interface RunsAnswer {
  readonly wantedTimelines: readonly string[];
  /** It does not have the report before. */
  readonly wantsRuns: boolean;
}

/** How much of its runs a node tells, and a registry takes. */
export const runReportLimits = Object.freeze({
  /** Of those that have not ended. */
  maxActive: 400,
  maxEnded: 100,
  maxTimelines: 4,
  maxTimelineBytes: 1024 * 1024,
});

export interface RunReportTarget {
  reportRuns(report: RunsReport, signal: AbortSignal): Promise<RunsAnswer>;
}
