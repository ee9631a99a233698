import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import type {
  NodeRunService,
  ReportRunsRequest,
  RunReport as WireRun,
} from '../../generated/proto/sms/node_runs_pb.ts';
import { type RunReport, type RunsReport, runReportLimits } from '../../registry-client/run-report.ts';
import { MAX_DEGRADED, runStatuses } from '../../server/records/run.ts';
import type { RunReports } from '../run-reports.ts';
import { identityOf } from './grpc-caller.ts';
import { checkNodeId, invalid, oneOf, printable, refusing } from './node-service.ts';

const MAX_NAME_CHARS = 128;
const runIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export function runService(runs: RunReports): ServiceImpl<typeof NodeRunService> {
  return {
    reportRuns(request, { values }) {
      checkNodeId(request.nodeId);
      const { namespace } = identityOf(values);
      return refusing(() => ({
        expiresAfterMs: runs.limits.expiresAfterMs,
        ...runs.accept(runsReport(request), namespace),
      }));
    },
  };
}

function runsReport({ nodeId, unchanged, runs, timelines }: ReportRunsRequest): RunsReport {
  const { maxActive, maxEnded, maxTimelines, maxTimelineBytes } = runReportLimits;
  if (runs.length > maxActive + maxEnded || timelines.length > maxTimelines) {
    throw new ConnectError(
      `the report has more than ${maxActive + maxEnded} runs or ${maxTimelines} timelines`,
      Code.ResourceExhausted,
    );
  }
  return {
    nodeId,
    runs: unchanged ? null : runs.map(runReport),
    timelines: timelines.map(({ runId, picture, problem }) => {
      if (Buffer.byteLength(picture) > maxTimelineBytes) {
        throw new ConnectError(`a timeline has more than ${maxTimelineBytes} bytes`, Code.ResourceExhausted);
      }
      return { runId, picture: picture === '' ? null : picture, problem: printable(problem) };
    }),
  };
}

function runReport(run: WireRun, index: number): RunReport {
  const at = (field: string) => `runs[${index}].${field}`;
  if (!runIdPattern.test(run.id)) throw invalid(at('id'), 'is not a valid run id');
  const { cost } = run;
  const namespace = printable(run.namespace, MAX_NAME_CHARS);
  return {
    id: run.id,
    namespace,
    task: printable(run.task, MAX_NAME_CHARS),
    revision: run.revision,
    status: oneOf(at('status'), run.status, runStatuses),
    submitted_by: printable(run.submittedBy, MAX_NAME_CHARS),
    submitted_at_ms: Number(run.submittedAtMs),
    started_at_ms: run.startedAtMs === undefined ? null : Number(run.startedAtMs),
    ended_at_ms: run.endedAtMs === undefined ? null : Number(run.endedAtMs),
    attempts: run.attempts,
    exit:
      run.exitReason === ''
        ? null
        : {
            reason: printable(run.exitReason, MAX_NAME_CHARS),
            code: run.exitCode ?? null,
            message: run.exitMessage === '' ? null : printable(run.exitMessage),
          },
    status_reason: run.statusReason === '' ? null : printable(run.statusReason),
    degraded:
      run.degraded.length === 0
        ? null
        : run.degraded.slice(0, MAX_DEGRADED).map(({ server, reason }) => ({
            server: printable(server, MAX_NAME_CHARS),
            reason: printable(reason),
          })),
    cost:
      cost === undefined
        ? null
        : { model_calls: cost.modelCalls, tool_calls: cost.toolCalls, total_tokens: Number(cost.totalTokens) },
  };
}
