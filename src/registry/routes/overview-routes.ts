import type { ApprovalQueue } from '../../agent/approvals/service.ts';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { version } from '../../base/version.ts';
import { jsonReply } from '../../server/http/http-reply.ts';
import { fieldError, HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, jsonBody } from '../../server/http/route.ts';
import type { Caller } from '../../server/identity/caller.ts';
import { isServerId, recordLimits } from '../../server/records/field-rules.ts';
import { maskRecord } from '../../server/records/mask.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { InvalidRecord } from '../../server/store/record-write.ts';
import type { StoreReader } from '../../server/store/store.ts';
import type {
  OverviewJson,
  RecordCheckJson,
  ServerErrorJson,
  ServerSummaryJson,
  ServerToolsJson,
  SummaryJson,
} from '../console-api.ts';
import { type ConsoleState, healthCounts, meanLatencyMs, sharedAnswer, worstHealth } from '../console-state.ts';
import type { NodeReports, ServerView } from '../node-reports.ts';
import { ADMIN_PATH, recordInput, withoutAddedFields } from './servers-routes.ts';

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

export interface OverviewDeps {
  readonly store: StoreReader;
  readonly profiles: StoreReader<McpProfile>;
  readonly reports: NodeReports;
  readonly console: ConsoleState;
  readonly writeProblem: () => string | null;
  readonly approvals: ApprovalQueue;
}

const MAX_ERRORS = 50;

type Figures = Omit<OverviewJson, 'write_problem' | 'pending_approvals'>;

/** `GET /admin/api/overview`: how the registry and all that follow it are, in one answer. */
export function overviewRoute(deps: OverviewDeps): Route {
  const figures = sharedAnswer(
    () => deps.console.key(),
    () => figuresOf(deps),
  );
  return {
    method: 'GET',
    path: '/admin/api/overview',
    needs: 'view',
    async run({ caller }) {
      const overview: OverviewJson = {
        ...(await figures()),
        write_problem: deps.writeProblem(),
        pending_approvals: await waiting(deps.approvals, caller),
      };
      return jsonReply(200, overview);
    },
  };
}

/** The same for everybody. */
async function figuresOf({ store, profiles, reports, console }: OverviewDeps): Promise<Figures> {
  const [{ epoch, revision, records }, profileList] = await Promise.all([store.list(), profiles.list()]);
  const nodes = reports.nodes();
  const seen = reports.byServer();
  const health = { idle: 0, connected: 0, degraded: 0, down: 0, unused: 0 };
  for (const { server_id: id } of records) health[worstHealth(healthCounts(seen.get(id) ?? [])) ?? 'unused'] += 1;
  return {
    version,
    up_ms: Math.round(process.uptime() * 1_000),
    epoch,
    revision,
    servers: records.length,
    profiles: profileList.records.length,
    nodes: {
      machines: reports.count,
      processes: nodes.length,
      troubled: nodes.filter(({ registryState }) => registryState !== 'ready').length,
      behind: nodes.filter((node) => node.epoch !== epoch || node.snapshotRevision < revision).length,
    },
    health,
    errors: errorsOf(reports),
    history: console.history.json(),
  };
}

/** Counts only the namespaces that the caller may name. */
async function waiting(queue: ApprovalQueue, caller: Caller): Promise<number> {
  const mayName = queue.scope(caller);
  const { records } = await queue.store.list();
  return records.filter(({ status, namespace }) => status === 'waiting' && mayName(namespace)).length;
}

/** What processes cannot reach now, and what they could not reach before; those that are down first. */
function errorsOf(reports: NodeReports): ServerErrorJson[] {
  const errors = reports
    .nodes()
    .flatMap(({ nodeId, ageMs, servers }) =>
      servers.flatMap(({ serverId, health, lastError }) =>
        lastError === null
          ? []
          : [{ server_id: serverId, node_id: nodeId, age_ms: Math.round(ageMs), health, text: lastError }],
      ),
    );
  const rank = ({ health }: ServerErrorJson) => (health === 'down' ? 0 : health === 'degraded' ? 1 : 2);
  return errors.sort((a, b) => rank(a) - rank(b) || a.age_ms - b.age_ms).slice(0, MAX_ERRORS);
}
