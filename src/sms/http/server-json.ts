import type { JsonObject } from '../../base/json.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import { maskRecord } from '../mask.ts';
import type { NodeView, ServerView } from '../node-reports.ts';

/** Fields of an answer that are not part of the record: they may come back in a write, and mean nothing there. */
const addedFields: ReadonlySet<string> = new Set(['origin', 'nodes', 'warnings', 'changed']);

/** A server as the admin API shows it: its record, where it came from, and what nodes say of it. */
export function serverJson(record: McpServerRecord, origin: string, reports: readonly ServerView[]) {
  return { ...maskRecord(record), origin, nodes: reports.map(serverViewJson) };
}

export function withoutAddedFields(input: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(input).filter(([name]) => !addedFields.has(name)));
}

export function nodeJson(node: NodeView) {
  return {
    node_id: node.nodeId,
    age_ms: node.ageMs,
    registry_state: node.registryState,
    epoch: node.epoch,
    snapshot_revision: node.snapshotRevision,
    servers: node.servers.map((server) => ({ server_id: server.serverId, ...healthJson(server) })),
  };
}

function serverViewJson(view: ServerView) {
  return {
    node_id: view.nodeId,
    age_ms: view.ageMs,
    snapshot_revision: view.snapshotRevision,
    ...healthJson(view),
  };
}

function healthJson(report: Pick<ServerView, 'health' | 'lastError' | 'toolCount' | 'reconnects'>) {
  return {
    health: report.health,
    last_error: report.lastError,
    tool_count: report.toolCount,
    reconnects: report.reconnects,
  };
}
