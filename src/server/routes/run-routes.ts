import { type StoppableRun, stopText } from '../../agent/policy/stops.ts';
import type { SmsTrail } from '../audit/sms-trail.ts';
import { jsonReply } from '../http/http-reply.ts';
import { HttpProblem } from '../http/problem.ts';
import type { Caller } from '../identity/caller.ts';
import { hasEnded, MAX_WAIT_S, type RunRecord, runPage, runRecord, runStatuses } from '../records/run.ts';
import type { StopRecord } from '../records/stop.ts';
import { runEventsRoute } from './run-events-route.ts';
import { noSuchRun, RUN_PATH, RUNS_PATH, type RunRoute, resultReply, runOf } from './run-route.ts';
import { RunEnds, retry, type SubmitDeps, submit, waitSeconds } from './submit-run.ts';

export interface RunRoutesDeps extends SubmitDeps {
  /** Withdraws the approvals and questions of a parked run that was cancelled. */
  readonly withdraw: (caller: Caller, namespace: string, run: string) => Promise<void>;
  /** The audit log; every read of a journal is an event. */
  readonly trail: Pick<SmsTrail, 'write'>;
  /** Active stops: a queued run says which one holds it. @default none */
  readonly stops?: () => Promise<{ of(run: StoppableRun): StopRecord | null }>;
}

const SUBMIT_PATH = '/v1/namespaces/{namespace}/tasks/{task}/runs';
const DEFAULT_PAGE = 50;
const MAX_PAGE = 500;
const BYTES = 'application/octet-stream';
const problem = { what: 'a problem (RFC 9457)', type: 'application/problem+json' };

/** The HTTP API of runs without user streams, in the registry and in the node. */
export function runRoutes(deps: RunRoutesDeps): RunRoute[] {
  const { backends, withdraw, trail } = deps;
  const withReasons = async (runs: readonly RunRecord[]): Promise<RunRecord[]> => {
    const stops = await deps.stops?.();
    return runs.map((run) => {
      const stop = run.status === 'queued' ? stops?.of(run) : null;
      return stop == null ? run : { ...run, status_reason: stopText(stop) };
    });
  };
  const withReason = async (run: RunRecord): Promise<RunRecord> => (await withReasons([run]))[0] ?? run;
  const ends = new RunEnds();
  return [
    {
      method: 'POST',
      path: SUBMIT_PATH,
      needs: 'submit',
      longRequest: ({ prefer }) => (waitSeconds(prefer) > 0 ? 'wait' : null),
      doc: {
        summary: 'Submits a run; the request body is the input of the run',
        headers: {
          'Idempotency-Key':
            'a repeated key of the same caller for the same task returns the existing run while that run is retained',
          Prefer: `wait=N: returns the result if the run ends within N seconds (at most ${MAX_WAIT_S})`,
        },
        body: { type: BYTES },
        answers: {
          200: { what: 'with Prefer: wait, the run succeeded: its stdout', type: BYTES },
          202: { what: 'the run', schema: runRecord },
          404: { ...problem, what: 'there is no such task' },
          422: { ...problem, what: 'the key was already used with a different input' },
          424: { ...problem, what: 'with Prefer: wait, the run did not succeed; the Spear-Run header has its id' },
          429: { ...problem, what: 'too many runs are queued; retry after the time in Retry-After' },
          503: { ...problem, what: 'the queue did not answer; the Spear-Run header has the id of the run' },
        },
      },
      run: (call) => submit(deps, ends, call, withReason),
    },
    {
      method: 'GET',
      path: RUNS_PATH,
      needs: 'view',
      doc: {
        summary: 'Lists runs, newest first',
        query: {
          task: 'only runs of this task',
          status: 'only runs with this status',
          limit: `number of runs per page, at most ${MAX_PAGE}`,
          cursor: 'cursor of the previous page',
        },
        answers: { 200: { what: 'a page of runs', schema: runPage } },
      },
      run: async ({ params: { namespace = '' }, query }) => {
        const { runs, cursor } = await backends(namespace).runs.list(namespace, filterOf(query));
        return jsonReply(200, { runs: await withReasons(runs), cursor });
      },
    },
    {
      method: 'GET',
      path: RUN_PATH,
      needs: 'view',
      doc: { summary: 'Returns one run', answers: { 200: { what: 'the run', schema: runRecord }, 404: problem } },
      run: async (call) => {
        const run = await withReason(await runOf(backends(call.params.namespace).runs, call));
        return jsonReply(200, run);
      },
    },
    {
      method: 'GET',
      path: `${RUN_PATH}/result`,
      needs: 'view',
      doc: {
        summary: 'Returns the stdout of a run',
        answers: {
          200: { what: 'stdout of the run', type: BYTES },
          409: { ...problem, what: 'the run has not ended' },
        },
      },
      run: async (call) => {
        const { runs } = backends(call.params.namespace);
        const run = await runOf(runs, call);
        const result = await runs.result(run.id);
        if (result === null && !hasEnded(run.status)) {
          throw new HttpProblem(
            409,
            'not-ended',
            `the run is ${run.status}; its result is available after it has ended`,
          );
        }
        return resultReply(run, result ?? new Uint8Array());
      },
    },
    {
      method: 'POST',
      path: `${RUN_PATH}/cancel`,
      needs: 'submit',
      doc: {
        summary: 'Cancels a run',
        answers: { 202: { what: 'the run in its current state', schema: runRecord }, 404: problem },
      },
      run: async ({ params, caller }) => {
        const { namespace = '', id = '' } = params;
        const { runs } = backends(namespace);
        const before = await runs.get(namespace, id);
        const run = await runs.cancel(namespace, id);
        if (run === null) throw noSuchRun(id);
        if (before?.status === 'parked') await withdraw(caller, namespace, id);
        return jsonReply(202, run);
      },
    },
    {
      method: 'POST',
      path: `${RUN_PATH}/retry`,
      needs: 'submit',
      doc: {
        summary: 'Retries an ended run: submits a new run with the same input and revision',
        answers: {
          202: { what: 'the new run', schema: runRecord },
          409: { ...problem, what: 'the run has not ended' },
        },
      },
      run: (call) => retry(deps, call),
    },
    {
      method: 'GET',
      path: `${RUN_PATH}/journal`,
      needs: 'journals',
      doc: {
        summary: 'Returns the journal of a run, including the content of its inputs and outputs',
        answers: { 200: { what: 'one JSON object per line', type: 'application/jsonl' }, 404: problem },
      },
      run: async (call) => {
        const { namespace: run_namespace = '', id: run = '' } = call.params;
        trail.write({ event: 'sms.journal_read', ...call.caller, run, run_namespace });
        const { runs, journals } = backends(run_namespace);
        const { namespace, id } = await runOf(runs, call);
        const body = await journals.read(namespace, id);
        if (body !== null) return { status: 200, headers: { 'content-type': 'application/jsonl' }, body };
        throw new HttpProblem(404, 'no-journal', 'the run has no journal: it has not started');
      },
    },
    runEventsRoute(backends),
  ];
}

function filterOf(query: URLSearchParams) {
  const status = query.get('status') ?? undefined;
  const known = runStatuses.find((one) => one === status);
  if (status !== undefined && known === undefined) {
    throw new HttpProblem(400, 'invalid-query', `status: expected one of ${runStatuses.join(', ')}`);
  }
  const cursor = query.get('cursor') ?? undefined;
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
    throw new HttpProblem(400, 'invalid-query', 'cursor: expected the cursor of the previous page');
  }
  const limit = Number(query.get('limit') ?? DEFAULT_PAGE);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE) {
    throw new HttpProblem(400, 'invalid-query', `limit: expected a whole number from 1 to ${MAX_PAGE}`);
  }
  return { task: query.get('task') ?? undefined, status: known, cursor, limit };
}
