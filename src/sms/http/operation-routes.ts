import type { DirectoryResult } from '../directory.ts';
import type { SmsGauges, SmsMetrics } from '../metrics/sms-metrics.ts';
import type { NodeReports } from '../node-reports.ts';
import type { DirectoryReloader } from '../reload.ts';
import type { ServingState } from '../serving-state.ts';
import type { RegistryStore } from '../store/store.ts';
import type { Route } from './http-listener.ts';
import { jsonReply } from './http-reply.ts';
import { HttpProblem } from './problem.ts';
import { nodeJson } from './server-json.ts';
import { ADMIN_PATH } from './servers-routes.ts';

export interface OperationRoutesDeps {
  readonly store: RegistryStore;
  readonly reports: NodeReports;
  readonly serving: ServingState;
  readonly metrics: SmsMetrics;
  readonly gauges: () => Promise<SmsGauges>;
  /** Why changes cannot be stored; null where they can. */
  readonly writeProblem: () => string | null;
  /** Null: there is no directory. */
  readonly reloader: DirectoryReloader | null;
}

/** Everything that is not about one record: probes, metrics, nodes, reload, and the list that nodes may read. */
export function operationRoutes(deps: OperationRoutesDeps): Route[] {
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
        body: await deps.metrics.text(await deps.gauges()),
      }),
    },
    {
      method: 'GET',
      path: '/api/v1/mcp/servers',
      needs: 'node',
      run: ({ headers }) => readList(deps, headers['if-none-match']),
    },
    { method: 'GET', path: '/api/v1/mcp/servers/{id}', needs: 'node', run: ({ id }) => readOne(deps, id) },
    {
      method: 'GET',
      path: `${ADMIN_PATH}/nodes`,
      needs: 'admin',
      run: async () => jsonReply(200, { nodes: deps.reports.nodes().map(nodeJson) }),
    },
    { method: 'POST', path: `${ADMIN_PATH}/reload`, needs: 'admin', run: ({ query }) => reload(deps, query) },
  ];
}

/** A registry that can only be read goes on serving, and is not ready: a revocation would not be stored. */
function readiness({ serving, writeProblem }: OperationRoutesDeps) {
  if (!serving.isServing) return jsonReply(503, { status: serving.current });
  const reason = writeProblem();
  if (reason === null) return jsonReply(200, { status: serving.current });
  return jsonReply(503, { status: 'read_only', reason: `changes cannot be stored: ${reason}; reading goes on` });
}

/** The records as they are, for nodes that cannot speak gRPC. */
async function readList({ store }: OperationRoutesDeps, known: string | undefined) {
  const { epoch, revision, servers } = await store.list();
  const tag = `"${epoch}/${revision}"`;
  if (known === tag) return { status: 304, headers: { etag: tag }, body: '' };
  return jsonReply(200, { revision, epoch, servers }, { etag: tag });
}

async function readOne({ store }: OperationRoutesDeps, id: string) {
  const record = await store.get(id);
  if (record === null) throw noSuchServer();
  return jsonReply(200, record);
}

function noSuchServer(): HttpProblem {
  return new HttpProblem(404, 'no-such-server', 'there is no such server');
}

async function reload({ reloader }: OperationRoutesDeps, query: URLSearchParams) {
  if (reloader === null) {
    throw new HttpProblem(409, 'no-directory', 'this registry was started without a directory (--mcp-registry-dir)');
  }
  const result = await reloader.reload({
    dryRun: query.get('dry_run') === 'true',
    allowMassRemoval: query.get('allow_mass_removal') === 'true',
  });
  return jsonReply(result.outcome === 'refused' ? 422 : 200, resultJson(result));
}

function resultJson({ outcome, refusal, plan, problems }: DirectoryResult) {
  return {
    outcome,
    // Named as in any other answer that is an error.
    ...(refusal === null ? {} : { detail: refusal }),
    changes: plan.changes.map((change) => ({
      action: change.action,
      server_id: change.serverId,
      file: change.file,
      fields: change.action === 'delete' ? [] : change.fields,
    })),
    unchanged: plan.unchanged.length,
    problems,
  };
}
