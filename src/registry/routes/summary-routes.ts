import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { jsonReply } from '../../server/http/http-reply.ts';
import { fieldError, HttpProblem } from '../../server/http/problem.ts';
import { type HttpCall, jsonBody } from '../../server/http/route.ts';
import { isServerId, recordLimits } from '../../server/records/field-rules.ts';
import { maskRecord } from '../../server/records/mask.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { InvalidRecord } from '../../server/store/record-write.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type { RecordCheckJson, ServerSummaryJson, ServerToolsJson, SummaryJson } from '../console-api.ts';
import { type ConsoleState, healthCounts, meanLatencyMs, sharedAnswer, worstHealth } from '../console-state.ts';
import type { NodeReports, ServerView } from '../node-reports.ts';
import type { Route } from './http-listener.ts';
import { withoutAddedFields } from './server-json.ts';
import { ADMIN_PATH, recordInput } from './servers-routes.ts';

export interface SummaryRoutesDeps {
  readonly store: StoreReader;
  readonly reports: NodeReports;
  readonly strict: boolean;
  readonly console: ConsoleState;
}

/** Some room for what stands around the record. */
const MAX_CHECK_BYTES = 4 * recordLimits.recordBytes + 4_096;

/** Servers as a page lists them, the tools that nodes were given, and what a write would do. */
export function summaryRoutes(deps: SummaryRoutesDeps): Route[] {
  const view = { method: 'GET', needs: 'view' } as const;
  const list = sharedAnswer(
    () => deps.console.key(),
    async () => jsonReply(200, await summary(deps)),
  );
  return [
    { ...view, path: `${ADMIN_PATH}/summary`, run: list },
    { ...view, path: `${ADMIN_PATH}/servers/{id}/tools`, run: async ({ id }) => jsonReply(200, await tools(deps, id)) },
    {
      method: 'POST',
      path: `${ADMIN_PATH}/servers/check`,
      needs: 'operate',
      isQuestion: true,
      run: async (call) => jsonReply(200, await check(deps, call)),
    },
  ];
}

async function summary({ store, reports }: SummaryRoutesDeps): Promise<SummaryJson> {
  const [{ epoch, revision, records }, origins] = await Promise.all([store.list(), store.origins()]);
  const seen = reports.byServer();
  const servers = records.map((record) => {
    const id = record.server_id;
    return summaryOf(record, origins.get(id) ?? '', seen.get(id) ?? []);
  });
  return { revision, epoch, servers };
}

function summaryOf(record: McpServerRecord, origin: string, views: readonly ServerView[]): ServerSummaryJson {
  const { stdio, http } = maskRecord(record);
  const nodes = healthCounts(views);
  const counts = views.flatMap(({ toolCount }) => toolCount ?? []);
  const failed = views.filter(({ lastError }) => lastError !== null);
  const worst = failed.find(({ health }) => health === 'down') ?? failed[0];
  return {
    server_id: record.server_id,
    display_name: record.display_name,
    transport: record.transport,
    target: stdio === null ? (http?.url ?? '') : [stdio.command, ...stdio.args].join(' '),
    tags: record.tags,
    origin,
    mod_revision: record.mod_revision,
    updated_at_ms: record.updated_at_ms,
    approval: record.approval_policy.default,
    nodes,
    health: worstHealth(nodes),
    tool_count: counts.length === 0 ? null : Math.max(...counts),
    pinned: Object.keys(record.pins).length,
    latency_ms: meanLatencyMs(views),
    last_error: worst === undefined ? null : { text: worst.lastError ?? '', node_id: worst.nodeId },
  };
}

async function tools({ store, reports }: SummaryRoutesDeps, id: string): Promise<ServerToolsJson> {
  const record = await store.get(id);
  if (record === null) throw new HttpProblem(404, 'no-such-server', 'there is no such server');
  const byHash = new Map<string, { nodes: string[]; view: ServerView }>();
  for (const view of reports.ofServer(id)) {
    if (view.toolsHash === undefined || reports.toolsOf(view) === null) continue;
    const list = byHash.get(view.toolsHash) ?? { nodes: [], view };
    list.nodes.push(view.nodeId);
    byHash.set(view.toolsHash, list);
  }
  const pinOf = (name: string, hash: string) => {
    const pin = Object.hasOwn(record.pins, name) ? record.pins[name] : undefined;
    return pin === undefined ? 'none' : pin === hash ? 'same' : 'different';
  };
  return {
    lists: [...byHash].map(([hash, { nodes, view }]) => ({
      hash,
      nodes,
      tools: (reports.toolsOf(view) ?? []).map(({ name, definitionSha256: sha256 }) => ({
        name,
        definition_sha256: sha256,
        pin: pinOf(name, sha256),
      })),
    })),
  };
}

/** `{server_id, record}`: what would come of writing it. Nothing is written. */
async function check({ store, strict }: SummaryRoutesDeps, call: HttpCall): Promise<RecordCheckJson> {
  const { server_id: id, record } = await jsonBody(call, MAX_CHECK_BYTES);
  const input = isJsonObject(record) ? withoutAddedFields(record) : {};
  const stored = typeof id === 'string' && isServerId(id) ? await store.get(id) : null;
  const before = stored === null ? null : content(stored);
  const failed = (issues: InvalidRecord['issues']) => ({
    ok: false,
    errors: issues.map(fieldError),
    warnings: [],
    before,
    after: null,
  });
  try {
    const parsed = store.kind.parse(recordInput(input)(stored), { strict });
    if (!parsed.ok) return failed(parsed.issues);
    return { ok: true, errors: [], warnings: parsed.warnings.map(fieldError), before, after: content(parsed.record) };
  } catch (error) {
    if (error instanceof InvalidRecord) return failed(error.issues);
    throw error;
  }
}

/** Without what the store adds. */
function content(record: McpServerRecord): JsonObject {
  const { updated_at_ms: _updated, mod_revision: _revision, ...rest } = maskRecord(record);
  return rest as unknown as JsonObject;
}
