import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { ProcessLoad, ServerReport } from '../../registry-client/node-report.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { fieldError, HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { etag, type HttpCall, jsonBody, type WriteCondition, writeCondition } from '../../server/http/route.ts';
import type { Caller } from '../../server/identity/caller.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { isServerId, recordLimits } from '../../server/records/field-rules.ts';
import { maskRecord, unmask } from '../../server/records/mask.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { knownSecrets, redactStrings } from '../../server/secrets/redactor.ts';
import { InvalidRecord, type RecordWrite, type WrittenRecord, writeRecord } from '../../server/store/record-write.ts';
import { DEFAULT_ORIGIN, type StoreReader, wasOvertaken } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import { machineOf, type NodeReports, type NodeView, type ServerView } from '../node-reports.ts';
import type { RegistryMetrics } from '../registry-metrics.ts';
import type { ServerTestResult } from '../server-test.ts';

export interface ServersRoutesDeps {
  readonly store: AuditedStore;
  readonly reports: NodeReports;
  readonly strict: boolean;
  readonly metrics: RegistryMetrics;
  readonly log: ServiceLog;
}

export const ADMIN_PATH = '/admin/api/mcp';

/** JSON may be written with spaces and escapes, so a body may be larger than what is stored. */
const MAX_RECORD_BODY_BYTES = 4 * recordLimits.recordBytes;

export function serversRoutes(deps: ServersRoutesDeps): Route[] {
  const servers = `${ADMIN_PATH}/servers`;
  const read = { needs: 'view', method: 'GET' } as const;
  const change = { needs: 'operate' } as const;
  return [
    { ...read, path: servers, run: () => list(deps) },
    { ...change, method: 'POST', path: servers, run: (call) => create(deps, call) },
    { ...read, path: `${servers}/{id}`, run: (call) => get(deps, call) },
    { ...change, method: 'PUT', path: `${servers}/{id}`, run: (call) => replace(deps, call) },
    { ...change, method: 'DELETE', path: `${servers}/{id}`, run: (call) => remove(deps, call) },
  ];
}

async function list({ store, reports }: ServersRoutesDeps): Promise<HttpReply> {
  const [{ epoch, revision, records }, origins] = await Promise.all([store.list(), store.origins()]);
  const seen = reports.byServer();
  return jsonReply(200, {
    revision,
    epoch,
    servers: records.map((record) => {
      const id = record.server_id;
      return serverJson(record, origins.get(id) ?? '', seen.get(id) ?? []);
    }),
  });
}

async function get({ store, reports }: ServersRoutesDeps, { id }: HttpCall): Promise<HttpReply> {
  const record = await store.get(id);
  if (record === null) throw missing(id);
  const origin = (await store.origins()).get(id) ?? '';
  const json = serverJson(record, origin, reports.ofServer(id));
  return jsonReply(200, json, { etag: etag(record.mod_revision) });
}

async function create(deps: ServersRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const input = withoutAddedFields(await jsonBody(call, MAX_RECORD_BODY_BYTES));
  const id = input.server_id;
  const serverId = typeof id === 'string' ? id : '';
  return write(deps, call.caller, { id: serverId, input: recordInput(input), strict: deps.strict, ifModRevision: 0 });
}

async function replace(deps: ServersRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const condition = writeCondition(call.headers);
  const body = withoutAddedFields(await jsonBody(call, MAX_RECORD_BODY_BYTES));
  if (body.server_id !== undefined && body.server_id !== call.id) {
    throw new InvalidRecord([{ path: 'server_id', message: 'does not match the path' }]);
  }
  const build = recordInput({ ...body, server_id: call.id });
  return conditional(condition, () =>
    write(deps, call.caller, {
      id: call.id,
      input: (stored) => {
        if (condition.kind === 'exists' && stored === null) throw missing(call.id);
        return build(stored);
      },
      strict: deps.strict,
      ...(condition.kind === 'absent' ? { ifModRevision: 0 } : {}),
      ...(condition.kind === 'at_revision' ? { ifModRevision: condition.modRevision } : {}),
    }),
  );
}

async function remove({ store, metrics, log }: ServersRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const condition = writeCondition(call.headers);
  if (!isServerId(call.id)) throw missing(call.id);
  const options = condition.kind === 'at_revision' ? { ifModRevision: condition.modRevision } : {};
  return conditional(condition, async () => {
    const startedAt = performance.now();
    const revision = await store.as(call.caller).remove(call.id, options);
    metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
    log('info', 'delete', { server: call.id, revision, via: 'http' });
    return jsonReply(200, { revision });
  });
}

/** A client that gave a condition is told that the condition failed, whichever way it did. */
export async function conditional(condition: WriteCondition, work: () => Promise<HttpReply>): Promise<HttpReply> {
  try {
    return await work();
  } catch (error) {
    const failed = wasOvertaken(error) || (error instanceof HttpProblem && error.status === 404);
    if (condition.kind === 'none' || !failed) throw error;
    throw new HttpProblem(412, 'revision-mismatch', (error as Error).message);
  }
}

export function recordInput(input: JsonObject): RecordWrite['input'] {
  return (stored: McpServerRecord | null) => {
    const unmasked = unmask(input, stored);
    if (unmasked.issues.length > 0) throw new InvalidRecord(unmasked.issues);
    const { updated_at_ms: _updated, mod_revision: _revision, ...content } = unmasked.input;
    return isJsonObject(content) ? content : {};
  };
}

async function write(deps: ServersRoutesDeps, caller: Caller, request: RecordWrite): Promise<HttpReply> {
  const startedAt = performance.now();
  const written: WrittenRecord = await writeRecord(deps.store.as(caller), request);
  deps.metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
  const { record, revision, created, changed } = written;
  const id = record.server_id;
  if (changed) deps.log('info', 'upsert', { server: id, revision, via: 'http' });
  // What was there already may have come from elsewhere.
  const origin = changed ? DEFAULT_ORIGIN : ((await deps.store.origins()).get(id) ?? '');
  const json = serverJson(record, origin, deps.reports.ofServer(id));
  return jsonReply(
    created ? 201 : 200,
    { ...json, changed, warnings: written.warnings.map(fieldError) },
    {
      etag: etag(record.mod_revision),
      ...(created ? { location: `${ADMIN_PATH}/servers/${encodeURIComponent(id)}` } : {}),
    },
  );
}

function missing(id: string): HttpProblem {
  const named = isServerId(id) ? `there is no server "${id}"` : 'there is no such server';
  return new HttpProblem(404, 'no-such-server', named);
}

export type TestServer = (record: McpServerRecord, signal: AbortSignal) => Promise<ServerTestResult>;

/** Each is a process or a connection of its own. */
const MAX_TESTS_AT_ONCE = 4;

/** `POST /servers/{id}/test` runs a server on this machine. `test` is null where the config does not allow that. */
export function testRoute(store: StoreReader, test: TestServer | null): Route {
  let running = 0;
  return {
    method: 'POST',
    path: `${ADMIN_PATH}/servers/{id}/test`,
    needs: 'operate',
    async run({ id, signal }) {
      if (test === null) {
        const detail =
          'a test runs the server on the host of the registry, and mcp.allow_server_test is off; use: spear servers test';
        throw new HttpProblem(403, 'server-test-off', detail);
      }
      const record = await store.get(id);
      if (record === null) throw new HttpProblem(404, 'no-such-server', 'there is no such server');
      if (running >= MAX_TESTS_AT_ONCE) {
        throw new HttpProblem(503, 'too-many-tests', `${MAX_TESTS_AT_ONCE} tests are already running; try again`);
      }
      running += 1;
      try {
        return jsonReply(200, redactStrings(await test(record, signal), knownSecrets.redact));
      } finally {
        running -= 1;
      }
    },
  };
}

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
