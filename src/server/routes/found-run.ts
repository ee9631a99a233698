import type { HttpReply } from '../http/http-reply.ts';
import { HttpProblem } from '../http/problem.ts';
import type { SubmittedRuns } from '../queue/run-queue.ts';
import type { RunRecord } from '../records/run.ts';
import type { RunCall } from './run-route.ts';

/** The run that a path names. */
export async function found(runs: SubmittedRuns, { params }: Pick<RunCall, 'params'>): Promise<RunRecord> {
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
