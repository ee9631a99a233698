import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { startOf } from '../../base/cut-text.ts';
import type { McpNodeService, McpServerReport } from '../../protocol/generated/sms/mcp_node_pb.ts';
import { isServerId } from '../../protocol/record.ts';
import { reportedHealths, reportedStates, type ServerReport } from '../../registry/node-report.ts';
import { type NodeReports, ReportRefused } from '../node-reports.ts';

/** Servers in one report. */
const MAX_REPORTED_SERVERS = 2_000;
const MAX_ERROR_CHARS = 300;
const nodeIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

export function nodeService(reports: NodeReports): ServiceImpl<typeof McpNodeService> {
  return {
    reportMcpNode(request) {
      if (!nodeIdPattern.test(request.nodeId)) {
        throw invalid('node_id', 'must be 1 to 128 letters, digits, ".", "_", ":" and "-"');
      }
      if (request.servers.length > MAX_REPORTED_SERVERS) {
        throw new ConnectError(`servers: more than ${MAX_REPORTED_SERVERS}`, Code.ResourceExhausted);
      }
      try {
        reports.accept({
          nodeId: request.nodeId,
          registryState: oneOf('registry_state', request.registryState, reportedStates),
          epoch: printable(request.epoch),
          snapshotRevision: Number(request.snapshotRevision),
          servers: request.servers.map(serverReport),
        });
      } catch (error) {
        if (error instanceof ReportRefused) throw new ConnectError(error.message, Code.ResourceExhausted);
        throw error;
      }
      return { expiresAfterMs: reports.limits.expiresAfterMs };
    },
  };
}

function serverReport(report: McpServerReport, index: number): ServerReport {
  if (!isServerId(report.serverId)) throw invalid(`servers[${index}].server_id`, 'is not the id of a server');
  return {
    serverId: report.serverId,
    health: oneOf(`servers[${index}].health`, report.health, reportedHealths),
    lastError: report.lastError === '' ? null : printable(report.lastError),
    toolCount: report.toolCount ?? null,
    reconnects: report.reconnects,
  };
}

function oneOf<T extends string>(field: string, value: string, words: readonly T[]): T {
  const word = words.find((candidate) => candidate === value);
  if (word === undefined) throw invalid(field, `must be ${words.join(', ')}`);
  return word;
}

/** What a node says ends up in terminals. */
function printable(text: string): string {
  return startOf(text, MAX_ERROR_CHARS).replaceAll(/\p{Cc}/gu, ' ');
}

function invalid(field: string, message: string): ConnectError {
  return new ConnectError(`${field}: ${message}`, Code.InvalidArgument);
}
