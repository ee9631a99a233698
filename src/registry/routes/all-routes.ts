import type { ApprovalQueue } from '../../agent/approvals/service.ts';
import type { Route } from '../../server/http/route.ts';
import { identityOf } from '../../server/http/route.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { StopRecord } from '../../server/records/stop.ts';
import type { TaskRequests } from '../../server/routes/task-requests.ts';
import { taskRoutes } from '../../server/routes/task-routes.ts';
import type { RegistryDatabase } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { ConsoleState } from '../console-state.ts';
import { accessRoute } from './access-route.ts';
import { approvalsRoutes } from './approvals-routes.ts';
import { trailRoute } from './audit-route.ts';
import { type AuthRoutesDeps, authRoutes } from './auth-routes.ts';
import { consoleRoutes } from './console-route.ts';
import { eventsRoute, liveRoute } from './events-routes.ts';
import { importRoute } from './import-routes.ts';
import { backupRoute, meRoute, type OperationRoutesDeps, openApiRoute, operationRoutes } from './operation-routes.ts';
import { overviewRoute, summaryRoutes } from './overview-routes.ts';
import { pinsRoutes } from './pins-routes.ts';
import { profilesRoutes } from './profiles-routes.ts';
import { type RunsRoutesDeps, runsRoutes } from './runs-routes.ts';
import { ADMIN_PATH, serversRoutes, type TestServer, testRoute } from './servers-routes.ts';
import { stopsRoutes } from './stops-routes.ts';
import { type TokensRoutesDeps, tokensRoutes } from './tokens-routes.ts';

export interface AllRoutesDeps
  extends Omit<OperationRoutesDeps, 'writeProblem'>,
    TokensRoutesDeps,
    AuthRoutesDeps,
    RunsRoutesDeps {
  /** What can be done with runs here. */
  readonly runRoutes: readonly Route[];
  readonly store: AuditedStore;
  readonly profiles: AuditedStore<McpProfile>;
  readonly approvals: ApprovalQueue;
  readonly stops: AuditedStore<StopRecord>;
  readonly taskRequests: TaskRequests;
  readonly kept: RegistryDatabase;
  readonly dataFile: string;
  readonly strict: boolean;
  /** Null: servers are not tested here. */
  readonly testServer: TestServer | null;
  readonly console: ConsoleState;
  /** Null: the registry keeps none. */
  readonly trailFile: string | null;
  readonly log: ServiceLog;
}

/** Everything that is served over HTTP, each with what it asks of its caller. */
export function allRoutes(deps: AllRoutesDeps): readonly Route[] {
  const { store, kept } = deps;
  const writeProblem = () => kept.writeProblem();
  const routes = [
    importRoute(deps),
    ...serversRoutes(deps),
    ...profilesRoutes(deps),
    eventsRoute(store, { path: `${ADMIN_PATH}/events`, needs: 'view' }),
    ...approvalsRoutes(deps.approvals),
    ...pinsRoutes({ store, pins: kept.pins, strict: deps.strict }),
    ...tokensRoutes(deps),
    ...stopsRoutes(deps),
    ...tasksRoutes(deps.taskRequests, deps.log),
    meRoute(deps.named),
    ...authRoutes(deps),
    backupRoute(kept, deps.dataFile),
    testRoute(store, deps.testServer),
    ...operationRoutes({ ...deps, writeProblem }),
    ...summaryRoutes(deps),
    overviewRoute({ ...deps, writeProblem }),
    accessRoute(deps),
    ...runsRoutes(deps),
    ...deps.runRoutes,
    trailRoute(deps.trailFile),
    liveRoute(deps.console.topics),
    ...consoleRoutes(),
  ];
  return [...routes, openApiRoute(routes)];
}

/** Tasks and their modules, as a node serves them too. */
export function tasksRoutes(requests: TaskRequests, log: ServiceLog): Route[] {
  return taskRoutes(requests).map(({ method, path, access, doc, run }) => ({
    ...{ method, path, doc },
    needs: access === 'read' ? 'view' : 'operate',
    namespaced: true,
    run: async (call) => {
      const { params, query, caller, bytes } = call;
      const reply = await run({ params, query, identity: identityOf(call), caller, bytes });
      if (access === 'change') log('info', 'task_changed', { method: `${method} ${path}`, ...params, via: 'http' });
      return reply;
    },
  }));
}
