import type { HttpReply } from '../http/http-reply.ts';
import type { RouteDoc } from '../http/openapi.ts';
import { HttpProblem } from '../http/problem.ts';
import type { AuthenticatedCall, Route } from '../http/route.ts';
import type { Need } from '../identity/identity.ts';
import type { RunEventSource } from '../queue/run-events.ts';
import type { SubmittedRuns } from '../queue/run-queue.ts';
import type { RunRecord } from '../records/run.ts';

/** A route about runs, in the registry and in the node. Each product wraps it into its own routes. */
export interface RunRoute extends Omit<Route, 'run' | 'needs'> {
  readonly method: 'GET' | 'POST';
  readonly needs: Extract<Need['needs'], 'view' | 'submit' | 'journals'>;
  readonly doc: RouteDoc;
  run(call: AuthenticatedCall): Promise<HttpReply | 'streamed'>;
}

/** Queue, journals and events of runs. */
export interface RunBackend {
  readonly runs: SubmittedRuns;
  readonly journals: {
    /** The journal in its file form. Null: there is none. */
    read(namespace: string, run: string): Promise<Uint8Array | null>;
  };
  readonly events: RunEventSource;
}

/** The backend of a namespace. @throws HttpProblem if there is none, or it is unavailable */
export type RunBackends = (namespace: string | undefined) => RunBackend;

export const RUNS_PATH = '/v1/namespaces/{namespace}/runs';
export const RUN_PATH = `${RUNS_PATH}/{id}`;

/** The run in the path of a request. @throws HttpProblem 404 */
export async function runOf(runs: SubmittedRuns, { params }: Pick<AuthenticatedCall, 'params'>): Promise<RunRecord> {
  const run = await runs.get(params.namespace ?? '', params.id ?? '');
  if (run === null) throw noSuchRun(params.id);
  return run;
}

export const noSuchRun = (id: string | undefined) =>
  new HttpProblem(404, 'no-such-run', `there is no run ${JSON.stringify(id)} in this namespace, or it has expired`);

export function resultReply(run: RunRecord, body: Uint8Array): HttpReply {
  return {
    status: 200,
    headers: { 'content-type': 'application/octet-stream', 'spear-run': run.id, 'spear-run-status': run.status },
    body,
  };
}
