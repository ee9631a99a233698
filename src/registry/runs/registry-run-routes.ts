import { type HttpCall, identityOf } from '../../server/http/http-call.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import { found } from '../../server/routes/found-run.ts';
import { RUN_PATH } from '../../server/routes/run-route.ts';
import { type RunRoutesDeps, runRoutes } from '../../server/routes/run-routes.ts';
import type { Route } from '../routes/http-listener.ts';

/** Runs as a node serves them, with what is on nodes alone: that says where it is. */
export function registryRunRoutes(deps: RunRoutesDeps): Route[] {
  const routes = runRoutes(deps).map(
    ({ run, ...route }): Route => ({
      ...route,
      namespaced: true,
      run: (call) => run({ ...call, identity: identityOf(call) }),
    }),
  );
  const elsewhere = { needs: 'submit', namespaced: true } as const;
  return [
    ...routes,
    {
      ...elsewhere,
      method: 'POST',
      path: `${RUN_PATH}/streams/session`,
      run: async (call: HttpCall) => {
        const { node, status } = await found(deps.kept(call.params.namespace).runs, call);
        throw streamsElsewhere(node === null ? `; the run is ${status}` : `: connect to ${node}`);
      },
    },
    {
      ...elsewhere,
      method: 'GET',
      path: '/api/v1/executions/{id}/streams/ws',
      run: async () => {
        throw streamsElsewhere('; GET /v1/namespaces/…/runs/{id} returns the node');
      },
    },
  ];
}

function streamsElsewhere(more: string): HttpProblem {
  const detail = `user streams are served by the node that runs the run, not by the registry${more}`;
  return new HttpProblem(409, 'streams-elsewhere', detail);
}
