import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { jsonReply } from '../../server/http/http-reply.ts';
import { openApiDocument } from '../../server/http/openapi.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, identityOf } from '../../server/http/route.ts';
import { permissionsOf } from '../../server/identity/identity.ts';
import type { NamedTokens } from '../../server/identity/named-tokens.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { StoreStamps } from '../../server/records/record-kind.ts';
import type { DirectoryResult } from '../../server/store/directory/directory.ts';
import type { RegistryDatabase, StoreReader } from '../../server/store/store.ts';
import type { ServingState } from '../grpc/health-service.ts';
import type { NodeReports } from '../node-reports.ts';
import type { RegistryGauges, RegistryMetrics } from '../registry-metrics.ts';
import type { DirectoryReloader } from '../reload.ts';
import { ADMIN_PATH, countedNodeJson, nodeJson } from './servers-routes.ts';

export interface OperationRoutesDeps {
  readonly store: StoreReader;
  readonly profiles: StoreReader<McpProfile>;
  readonly reports: NodeReports;
  readonly serving: ServingState;
  readonly metrics: RegistryMetrics;
  readonly gauges: () => Promise<RegistryGauges>;
  /** Why changes cannot be stored; null where they can. */
  readonly writeProblem: () => string | null;
  /** Whether the queue of runs accepts them; null: there is none. */
  readonly queueAvailable: () => boolean | null;
  /** Null: there is no directory. */
  readonly reloader: DirectoryReloader | null;
}

/** Everybody may ask for the metrics, and to collect them takes milliseconds: who asks within this time gets the same. */
const METRICS_SHARED_MS = 250;

/** Everything that is not about one record: probes, metrics, nodes, reload, and the list that nodes may read. */
export function operationRoutes(deps: OperationRoutesDeps): Route[] {
  const metrics = shared(METRICS_SHARED_MS, async () => deps.metrics.text(await deps.gauges()));
  return [
    { method: 'GET', path: '/healthz', needs: 'anybody', run: async () => jsonReply(200, { status: 'ok' }) },
    {
      method: 'GET',
      path: '/readyz',
      needs: 'anybody',
      run: async () => readiness(deps),
    },
    {
      method: 'GET',
      path: '/metrics',
      needs: 'anybody',
      run: async () => ({
        status: 200,
        headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
        body: await metrics(),
      }),
    },
    {
      method: 'GET',
      path: '/api/v1/mcp/servers',
      needs: 'follow',
      run: ({ headers }) => readList(deps.store, 'servers', headers['if-none-match']),
    },
    {
      method: 'GET',
      path: '/api/v1/mcp/profiles',
      needs: 'follow',
      run: ({ headers }) => readList(deps.profiles, 'profiles', headers['if-none-match']),
    },
    { method: 'GET', path: '/api/v1/mcp/servers/{id}', needs: 'follow', run: ({ id }) => readOne(deps, id) },
    {
      method: 'GET',
      path: `${ADMIN_PATH}/nodes`,
      needs: 'view',
      run: async ({ query }) => {
        const nodes = deps.reports.nodes();
        const counted = query.get('servers') === 'counted';
        return jsonReply(200, { nodes: counted ? nodes.map(countedNodeJson) : nodes.map(nodeJson) });
      },
    },
    { method: 'POST', path: `${ADMIN_PATH}/reload`, needs: 'operate', run: (call) => reload(deps, call) },
  ];
}

/** One answer for all who ask while it is made, and for some time afterwards. */
function shared<T>(forMs: number, make: () => Promise<T>): () => Promise<T> {
  let last: { readonly answer: Promise<T>; readonly atMs: number } | null = null;
  return () => {
    const now = performance.now();
    if (last === null || now - last.atMs >= forMs) last = { answer: make(), atMs: now };
    return last.answer;
  };
}

/** A registry that can only be read goes on serving, and is not ready: a revocation would not be stored. */
function readiness({ serving, writeProblem, queueAvailable }: OperationRoutesDeps) {
  const isAvailable = queueAvailable();
  // For information: nodes need the registry also where the queue is away.
  const queue = isAvailable === null ? {} : { queue: isAvailable ? 'available' : 'unavailable' };
  if (!serving.isServing) return jsonReply(503, { status: serving.current, ...queue });
  const problem = writeProblem();
  if (problem === null) return jsonReply(200, { status: serving.current, ...queue });
  const reason = `changes cannot be stored: ${problem}; reads still work`;
  return jsonReply(503, { status: 'read_only', reason, ...queue });
}

/** The records as they are, for nodes that cannot speak gRPC. */
async function readList<R extends StoreStamps>(
  store: StoreReader<R>,
  name: 'servers' | 'profiles',
  known: string | undefined,
) {
  const { epoch, revision, records } = await store.list();
  const tag = `"${epoch}/${revision}"`;
  if (known === tag) return { status: 304, headers: { etag: tag }, body: '' };
  return jsonReply(200, { revision, epoch, [name]: records }, { etag: tag });
}

async function readOne({ store }: OperationRoutesDeps, id: string) {
  const record = await store.get(id);
  if (record === null) throw noSuchServer();
  return jsonReply(200, record);
}

function noSuchServer(): HttpProblem {
  return new HttpProblem(404, 'no-such-server', 'there is no such server');
}

async function reload({ reloader }: OperationRoutesDeps, { query, caller }: HttpCall) {
  if (reloader === null) {
    throw new HttpProblem(409, 'no-directory', 'this registry was started without a directory (--mcp-registry-dir)');
  }
  const result = await reloader.reload(caller, {
    dryRun: query.get('dry_run') === 'true',
    allowMassRemoval: query.get('allow_mass_removal') === 'true',
  });
  const refused = [result.servers, result.profiles].some(({ outcome }) => outcome === 'refused');
  const servers = resultJson(result.servers, 'server_id');
  return jsonReply(refused ? 422 : 200, { ...servers, profiles: resultJson(result.profiles, 'name') });
}

function resultJson({ outcome, refusal, plan, problems }: DirectoryResult, idField: string) {
  return {
    outcome,
    // Named as in any other answer that is an error.
    ...(refusal === null ? {} : { detail: refusal }),
    changes: plan.changes.map((change) => ({
      action: change.action,
      [idField]: change.id,
      file: change.file,
      fields: change.action === 'delete' ? [] : change.fields,
    })),
    unchanged: plan.unchanged.length,
    problems,
  };
}

const SEND_TIMEOUT_MS = 10 * 60_000;

/** `POST /backup` answers with a consistent copy of the whole registry, secrets included. One at a time. */
export function backupRoute(store: Pick<RegistryDatabase, 'backup'>, dataFile: string): Route {
  let busy = false;
  return {
    method: 'POST',
    path: `${ADMIN_PATH}/backup`,
    needs: 'administer',
    async run(call) {
      if (store.backup === null) {
        const detail =
          'this registry is stored in etcd: back it up with etcdctl snapshot save, or copy it with spear-sms migrate';
        throw new HttpProblem(409, 'kept-elsewhere', detail);
      }
      if (busy) throw new HttpProblem(503, 'backup-running', 'another backup is in progress');
      busy = true;
      try {
        return await sendBackup((copy) => store.backup?.(copy), `${dataFile}.backup`, call);
      } finally {
        busy = false;
      }
    },
  };
}

async function sendBackup(
  backup: (copy: string) => Promise<void> | undefined,
  copy: string,
  { response, signal }: HttpCall,
): Promise<'streamed'> {
  try {
    await backup(copy);
    const { size } = await stat(copy);
    response.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-length': String(size),
      'cache-control': 'no-store',
    });
    // The client disconnected: there is no receiver for an error.
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(SEND_TIMEOUT_MS)]);
    await pipeline(createReadStream(copy), response, { signal: deadline }).catch(() => {});
  } finally {
    await rm(copy, { force: true });
  }
  return 'streamed';
}

const about = {
  title: 'spear-sms',
  description:
    'Runs and tasks of a registry; nodes serve the same API. docs/registry-protocol.md describes the other routes.',
};

/** The description of those routes that have one: for anybody. */
export function openApiRoute(routes: readonly Route[]): Route {
  let document: string | null = null;
  return {
    method: 'GET',
    path: '/openapi.json',
    needs: 'anybody',
    run: async () => {
      const described = routes.flatMap(({ doc, ...route }) => (doc === undefined ? [] : [{ ...route, doc }]));
      document ??= JSON.stringify(openApiDocument(about, described));
      return { status: 200, headers: { 'content-type': 'application/json' }, body: document };
    },
  };
}

/** How long a rotation by another user is reported. */
const ROTATION_NOTICE_MS = 30 * 24 * 3_600_000;

/** `GET /me`: name, roles and permissions of the caller. */
export const meRoute = (named: Pick<NamedTokens, 'rotatedBy'>): Route => ({
  method: 'GET',
  path: '/admin/api/me',
  needs: 'view',
  async run(call) {
    const identity = identityOf(call);
    const { name, roles, namespace, mayReadJournals, expiresAtMs } = identity;
    const rotated = named.rotatedBy(name);
    return jsonReply(200, {
      name,
      roles,
      namespace,
      may: permissionsOf(identity),
      read_journals: mayReadJournals,
      expires_at_ms: expiresAtMs,
      rotated_by: rotated && Date.now() - rotated.at_ms < ROTATION_NOTICE_MS ? rotated : null,
    });
  },
});
