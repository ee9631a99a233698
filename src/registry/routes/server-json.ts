import type { JsonObject } from '../../base/json.ts';
import type { ProcessLoad, ServerReport } from '../../registry-client/node-report.ts';
import { maskRecord } from '../../server/records/mask.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { machineOf, type NodeView, type ServerView } from '../node-reports.ts';

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
  const servers = node.servers.map((server) => ({ server_id: server.serverId, ...healthJson(server) }));
  return { ...processJson(node), servers };
}

/** For lists of many: how many servers it uses, and of how many it says that they fail. */
export function countedNodeJson(node: NodeView) {
  const failing = node.servers.filter(({ health }) => health === 'down' || health === 'degraded').length;
  return { ...processJson(node), servers: node.servers.length, failing };
}

function processJson(node: NodeView) {
  return {
    node_id: node.nodeId,
    machine: machineOf(node.nodeId),
    age_ms: node.ageMs,
    registry_state: node.registryState,
    epoch: node.epoch,
    snapshot_revision: node.snapshotRevision,
    version: node.version || null,
    load: node.load === undefined ? null : loadJson(node.load),
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

function loadJson(load: ProcessLoad) {
  return {
    connections: load.connections,
    subprocesses: load.subprocesses,
    calls_in_flight: load.callsInFlight,
    calls_queued: load.callsQueued,
    memory_bytes: load.memoryBytes,
    cpu_permille: load.cpuPermille,
    up_ms: load.upMs,
  };
}

function healthJson(report: ServerReport) {
  return {
    health: report.health,
    last_error: report.lastError,
    tool_count: report.toolCount,
    reconnects: report.reconnects,
    latency_ms: report.latencyMs ?? null,
    tools_hash: report.toolsHash ?? null,
  };
}
