import type { ApprovalQueue } from '../../agent/approvals/service.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { StopRecord } from '../../server/records/stop.ts';
import type { TaskRequests } from '../../server/routes/task-requests.ts';
import type { RegistryDatabase } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { ConsoleState } from '../console-state.ts';
import { accessRoute } from './access-route.ts';
import { approvalsRoutes } from './approvals-routes.ts';
import { type AuthRoutesDeps, authRoutes } from './auth-routes.ts';
import { backupRoute } from './backup-route.ts';
import { consoleRoutes } from './console-route.ts';
import { eventsRoute } from './events-route.ts';
import type { Route } from './http-listener.ts';
import { importRoute } from './import-route.ts';
import { liveRoute } from './live-route.ts';
import { meRoute } from './me-route.ts';
import { openApiRoute } from './openapi-route.ts';
import { type OperationRoutesDeps, operationRoutes } from './operation-routes.ts';
import { overviewRoute } from './overview-route.ts';
import { pinsRoutes } from './pins-routes.ts';
import { profilesRoutes } from './profiles-routes.ts';
import { type RunsRoutesDeps, runsRoutes } from './runs-routes.ts';
import { ADMIN_PATH, serversRoutes } from './servers-routes.ts';
import { stopsRoutes } from './stops-routes.ts';
import { summaryRoutes } from './summary-routes.ts';
import { tasksRoutes } from './tasks-routes.ts';
import { type TestServer, testRoute } from './test-route.ts';
import { type TokensRoutesDeps, tokensRoutes } from './tokens-routes.ts';
import { trailRoute } from './trail-route.ts';

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
