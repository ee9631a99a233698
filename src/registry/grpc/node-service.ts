import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { startOf } from '../../base/text.ts';
import type {
  McpNodeLoad,
  McpNodeService,
  McpServerReport,
  McpToolList,
} from '../../generated/proto/sms/mcp_node_pb.ts';
import type {
  NodeRunService,
  ReportRunsRequest,
  RunReport as WireRun,
} from '../../generated/proto/sms/node_runs_pb.ts';
import {
  type NodeReport,
  type ProcessLoad,
  type RunReport,
  type RunsReport,
  reportedHealths,
  reportedStates,
  runReportLimits,
  type ServerReport,
  type ToolListReport,
  toolListHash,
} from '../../registry-client/node-report.ts';
import { isServerId } from '../../server/records/field-rules.ts';
import { MAX_DEGRADED, runStatuses } from '../../server/records/run.ts';
import { type NodeReports, ReportRefused } from '../node-reports.ts';
import type { RunReports } from '../run-reports.ts';
import { identityOf } from './grpc-call.ts';

/** Servers in one report. */
const MAX_REPORTED_SERVERS = 2_000;
const MAX_ERROR_CHARS = 300;
const MAX_VERSION_CHARS = 64;
const MAX_TOOL_NAME_CHARS = 256;
const sha256 = /^[0-9a-f]{64}$/;
const nodeIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

export function nodeService(reports: NodeReports): ServiceImpl<typeof McpNodeService> {
  return {
    reportMcpNode(request, { values }) {
      checkNodeId(request.nodeId);
      const { namespace } = identityOf(values);
      if (request.servers.length > MAX_REPORTED_SERVERS) {
        throw new ConnectError(`servers has more than ${MAX_REPORTED_SERVERS} entries`, Code.ResourceExhausted);
      }
      return refusing(() => {
        const report: NodeReport = {
          nodeId: request.nodeId,
          registryState: oneOf('registry_state', request.registryState, reportedStates),
          epoch: printable(request.epoch),
          snapshotRevision: Number(request.snapshotRevision),
          servers: request.servers.map(serverReport),
          version: printable(request.version, MAX_VERSION_CHARS),
          ...(request.load === undefined ? {} : { load: processLoad(request.load) }),
          stopsEpoch: printable(request.stopsEpoch),
          stopsRevision: Number(request.stopsRevision),
          toolLists: request.toolLists.map(toolList),
        };
        const wantedToolLists = reports.accept(report, namespace);
        return { expiresAfterMs: reports.limits.expiresAfterMs, wantedToolLists: [...wantedToolLists] };
      });
    },
  };
}

export function refusing<T>(accept: () => T): T {
  try {
    return accept();
  } catch (error) {
    if (error instanceof ReportRefused) throw new ConnectError(error.message, Code.ResourceExhausted);
    throw error;
  }
}

export function checkNodeId(id: string): void {
  if (nodeIdPattern.test(id)) return;
  throw invalid('node_id', 'must be 1 to 128 letters, digits, ".", "_", ":" and "-"');
}

function serverReport(report: McpServerReport, index: number): ServerReport {
  if (!isServerId(report.serverId)) throw invalid(`servers[${index}].server_id`, 'is not a valid server id');
  return {
    serverId: report.serverId,
    health: oneOf(`servers[${index}].health`, report.health, reportedHealths),
    lastError: report.lastError === '' ? null : printable(report.lastError),
    toolCount: report.toolCount ?? null,
    reconnects: report.reconnects,
    ...(report.latencyMs === undefined ? {} : { latencyMs: Math.max(0, report.latencyMs) }),
    ...(sha256.test(report.toolsHash) ? { toolsHash: report.toolsHash } : {}),
  };
}

function processLoad({ memoryBytes, upMs, ...load }: McpNodeLoad): ProcessLoad {
  const { connections, subprocesses, callsInFlight, callsQueued, cpuPermille } = load;
  const counts = { connections, subprocesses, callsInFlight, callsQueued, cpuPermille };
  return { ...counts, memoryBytes: Number(memoryBytes), upMs: Number(upMs) };
}

/** Lists of all nodes are kept by their hash: one that holds something else would be taken for theirs. */
function toolList({ hash, tools: told }: McpToolList, index: number): ToolListReport {
  const tools = told.map(({ name, definitionSha256 }) => ({ name, definitionSha256 }));
  const isPlain = tools.every(
    ({ name, definitionSha256 }) => name.length <= MAX_TOOL_NAME_CHARS && sha256.test(definitionSha256),
  );
  if (!isPlain) throw invalid(`tool_lists[${index}].tools`, 'has a tool name that is too long, or an invalid sha256');
  if (toolListHash(tools) !== hash) throw invalid(`tool_lists[${index}].hash`, 'does not match the tool list');
  return { hash, tools };
}

export function oneOf<T extends string>(field: string, value: string, words: readonly T[]): T {
  const word = words.find((candidate) => candidate === value);
  if (word === undefined) throw invalid(field, `must be one of ${words.join(', ')}`);
  return word;
}

/** What a node says ends up in terminals. */
export function printable(text: string, maxChars = MAX_ERROR_CHARS): string {
  return startOf(text, maxChars).replaceAll(/\p{Cc}/gu, ' ');
}

export function invalid(field: string, message: string): ConnectError {
  return new ConnectError(`${field}: ${message}`, Code.InvalidArgument);
}

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
