import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import { jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, identityOf } from '../../server/http/route.ts';
import { mayName } from '../../server/identity/identity.ts';
import { runStatuses } from '../../server/records/run.ts';
import type { RunJson, RunsJson } from '../console-api.ts';
import { NoTimeline, type RunReports, type RunView } from '../run-reports.ts';

export const RUNS_PATH = '/admin/api/runs';
const DEFAULT_LISTED = 500;
const MAX_LISTED = 5_000;

export interface RunsRoutesDeps {
  readonly runs: RunReports;
  readonly trail: SmsTrail;
}

/** Runs of the nodes that follow this registry, to whoever may name their namespaces. */
export function runsRoutes({ runs, trail }: RunsRoutesDeps): Route[] {
  const view = { method: 'GET', needs: 'view', namespaced: true } as const;
  return [
    { ...view, path: RUNS_PATH, run: async (call) => jsonReply(200, list(runs, call)) },
    { ...view, path: `${RUNS_PATH}/{id}`, run: async (call) => jsonReply(200, shown(find(runs, call))) },
    {
      ...view,
      path: `${RUNS_PATH}/{id}/timeline`,
      run: async (call) => {
        const run = find(runs, call);
        const { mayReadJournals, name } = identityOf(call);
        if (!mayReadJournals) {
          throw new HttpProblem(
            403,
            'no-journals',
            `the timeline of a run needs the journals permission, which "${name}" does not have`,
          );
        }
        trail.write({ event: 'sms.journal_read', ...call.caller, run: run.id, run_namespace: run.namespace });
        return jsonReply(200, await timeline(runs, run));
      },
    },
  ];
}

function list(runs: RunReports, call: HttpCall): RunsJson {
  const { query } = call;
  const status = query.get('status');
  if (status !== null && !runStatuses.some((known) => known === status)) {
    throw new HttpProblem(400, 'invalid-query', `status: expected one of ${runStatuses.join(', ')}`);
  }
  const limit = Number(query.get('limit') ?? DEFAULT_LISTED);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LISTED) {
    throw new HttpProblem(400, 'invalid-query', `limit: expected a whole number from 1 to ${MAX_LISTED}`);
  }
  const wanted = (['task', 'namespace', 'submitted_by', 'nodeId'] as const).flatMap((field) => {
    const value = query.get(field === 'nodeId' ? 'node' : field);
    return value === null ? [] : [{ field, value }];
  });
  const identity = identityOf(call);
  const matching = runs
    .runs()
    .filter((run) => mayName(identity, run.namespace) && (status === null || run.status === status))
    .filter((run) => wanted.every(({ field, value }) => run[field] === value));
  return { runs: matching.slice(0, limit).map(shown), total: matching.length };
}

function find(runs: RunReports, call: HttpCall): RunView {
  const identity = identityOf(call);
  const run = runs.find(call.id, (namespace) => mayName(identity, namespace));
  if (run !== null) return run;
  throw new HttpProblem(404, 'no-such-run', 'no node reports such a run');
}

async function timeline(runs: RunReports, run: RunView) {
  try {
    return await runs.timeline(run);
  } catch (error) {
    if (error instanceof NoTimeline) throw new HttpProblem(503, 'no-timeline', error.message);
    throw error;
  }
}

function shown({ nodeId, reporter: _, ...run }: RunView): RunJson {
  return { ...run, node: nodeId };
}
