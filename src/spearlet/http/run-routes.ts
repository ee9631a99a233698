import { hash, randomBytes } from 'node:crypto';
import {
  hasEnded,
  MAX_INPUT_BYTES,
  MAX_WAIT_S,
  type RunRecord,
  runPage,
  runRecord,
  runStatuses,
} from '../../protocol/run.ts';
import type { NewRun, RunQueue } from '../../queue/run-queue.ts';
import { HttpProblem } from '../../sms/http/problem.ts';
import type { Identity } from '../../sms/people/identity.ts';
import type { ServiceLog } from '../../sms/service-log.ts';
import { unknownTask } from '../../tasks/task-book.ts';
import type { ParkedRuns } from '../parked-runs.ts';
import type { RunJournals } from '../run-journals.ts';
import type { RunTraces } from '../run-traces.ts';
import type { TaskStore } from '../task-store.ts';
import { jsonReply, type NodeCall, type NodeReply, type NodeRoute } from './node-route.ts';

export interface RunRoutesDeps {
  readonly queue: RunQueue;
  readonly tasks: TaskStore;
  readonly journals: RunJournals;
  readonly parked: Pick<ParkedRuns, 'left'>;
  readonly isDraining: () => boolean;
  /** Null: runs are not traced. */
  readonly traces: RunTraces | null;
  readonly log: ServiceLog;
}

export const RUNS_PATH = '/v1/namespaces/{namespace}/runs';
const RUN_PATH = `${RUNS_PATH}/{id}`;
const SUBMIT_PATH = '/v1/namespaces/{namespace}/tasks/{task}/runs';
const MAX_KEY_CHARS = 256;
/** Inputs that are being read, together. */
const MAX_READING_BYTES = 256 * 1024 * 1024;
const DEFAULT_PAGE = 50;
const MAX_PAGE = 500;
const BYTES = 'application/octet-stream';
const problem = { what: 'a problem (RFC 9457)', type: 'application/problem+json' };

/** Everything about runs but their events. */
export function runRoutes(deps: RunRoutesDeps): NodeRoute[] {
  const { queue, journals, parked } = deps;
  const reading = new ReadingInputs();
  return [
    {
      method: 'POST',
      path: SUBMIT_PATH,
      needs: 'submit',
      doc: {
        summary: 'Submits a run: the body is its input',
        headers: {
          'Idempotency-Key': 'the same key of the same caller for the same task is the same run, as long as it is kept',
          Prefer: `wait=N: answers with the result if the run ends within N seconds (at most ${MAX_WAIT_S})`,
        },
        body: { type: BYTES },
        answers: {
          200: { what: 'with Prefer: wait, the run succeeded: what it wrote to stdout', type: BYTES },
          202: { what: 'the run', schema: runRecord },
          404: { ...problem, what: 'there is no such task' },
          422: { ...problem, what: 'the key was used with another input' },
          424: { ...problem, what: 'with Prefer: wait, the run ended otherwise; its id is in the header Spear-Run' },
          429: { ...problem, what: 'too many runs wait; Retry-After says when to try again' },
        },
      },
      run: (call) => submit(deps, reading, call),
    },
    {
      method: 'GET',
      path: RUNS_PATH,
      needs: 'view',
      doc: {
        summary: 'Lists runs, newest first',
        query: {
          task: 'of this task',
          status: 'in this status',
          limit: `at most ${MAX_PAGE}`,
          cursor: 'of the page before',
        },
        answers: { 200: { what: 'a page', schema: runPage } },
      },
      run: async ({ params, query }) => jsonReply(200, await queue.list(params.namespace ?? '', filterOf(query))),
    },
    {
      method: 'GET',
      path: RUN_PATH,
      needs: 'view',
      doc: { summary: 'One run', answers: { 200: { what: 'the run', schema: runRecord }, 404: problem } },
      run: async (call) => jsonReply(200, await found(queue, call)),
    },
    {
      method: 'GET',
      path: `${RUN_PATH}/result`,
      needs: 'view',
      doc: {
        summary: 'What the run wrote to stdout',
        answers: { 200: { what: 'the bytes', type: BYTES }, 409: { ...problem, what: 'it has not ended yet' } },
      },
      run: async (call) => {
        const run = await found(queue, call);
        const result = await queue.result(run.id);
        if (result === null && !hasEnded(run.status)) {
          throw new HttpProblem(409, 'not-ended', `the run is ${run.status}; its result comes when it has ended`);
        }
        return resultReply(run, result ?? new Uint8Array());
      },
    },
    {
      method: 'POST',
      path: `${RUN_PATH}/cancel`,
      needs: 'submit',
      doc: {
        summary: 'Ends a run',
        answers: { 202: { what: 'the run as it stands', schema: runRecord }, 404: problem },
      },
      run: async ({ params }) => {
        const { namespace = '', id = '' } = params;
        const before = await queue.get(namespace, id);
        const run = await queue.cancel(namespace, id);
        if (run === null) throw noSuchRun(id);
        if (before?.status === 'parked') await parked.left(namespace, id);
        return jsonReply(202, run);
      },
    },
    {
      method: 'POST',
      path: `${RUN_PATH}/retry`,
      needs: 'submit',
      doc: {
        summary: 'Submits a run again that has ended: a new run with the same input and revision',
        answers: { 202: { what: 'the new run', schema: runRecord }, 409: { ...problem, what: 'it has not ended' } },
      },
      run: (call) => retry(deps, call),
    },
    {
      method: 'GET',
      path: `${RUN_PATH}/journal`,
      needs: 'journals',
      doc: {
        summary: 'The journal of a run: what it did and was told, its content included',
        answers: { 200: { what: 'lines of JSON', type: 'application/jsonl' }, 404: problem },
      },
      run: async (call) => {
        const { namespace, id } = await found(queue, call);
        const body = await journals.read(namespace, id);
        if (body !== null) return { status: 200, headers: { 'content-type': 'application/jsonl' }, body };
        throw new HttpProblem(404, 'no-journal', 'the run has no journal: it has not begun');
      },
    },
  ];
}

async function submit(
  { queue, tasks, isDraining, traces, log }: RunRoutesDeps,
  reading: ReadingInputs,
  call: NodeCall,
): Promise<NodeReply> {
  const { namespace = '', task: name = '' } = call.params;
  if (isDraining()) throw new HttpProblem(503, 'shutting-down', 'the node ends', { headers: { 'retry-after': '5' } });
  const task = tasks.find({ namespace, name });
  if (task === null) throw unknownTask({ namespace, name });
  const key = idempotencyKey(call.request.headers['idempotency-key']);
  const waitS = waitSeconds(call.request.headers.prefer);
  const input = await reading.read(call);
  const { revision, wasm, pool, retry: again } = task.live;
  const id = runId(call.caller, namespace, name, key);
  const { run, created } = await queue.submit({
    ...{ id, namespace, task: name, revision, wasm, pool, input },
    traceparent: traces?.submitted(id, call.trace) ?? null,
    submittedBy: call.caller.name,
    maxAttempts: again.max_attempts,
  });
  if (created)
    log('info', 'run_submitted', { run: run.id, task: `${namespace}/${name}@${revision}`, by: call.caller.name });
  const headers = { location: `/v1/namespaces/${namespace}/runs/${run.id}`, 'spear-run': run.id };
  if (waitS === 0) return jsonReply(202, run, headers);
  const ended = await whenEnded(queue, run, waitS * 1000, call.signal);
  const applied = { ...headers, 'preference-applied': `wait=${waitS}` };
  if (!hasEnded(ended.status)) return jsonReply(202, ended, headers);
  if (ended.status === 'succeeded') {
    const reply = resultReply(ended, (await queue.result(run.id)) ?? new Uint8Array());
    return { ...reply, headers: { ...reply.headers, ...applied } };
  }
  const { reason = '', code = null, message = null } = ended.exit ?? {};
  const why = `${reason}${code === null ? '' : ` ${code}`}${message === null ? '' : `: ${message}`}`;
  const again_ = created ? '' : ' (an earlier submission with this key)';
  throw new HttpProblem(424, 'run-failed', `the run ${run.id} ended as ${ended.status}${again_}: ${why}`, {
    headers: { ...applied, 'spear-run-status': ended.status },
  });
}

/** Bounds what submissions hold in memory before they are stored. */
class ReadingInputs {
  #bytes = 0;

  async read(call: NodeCall): Promise<Uint8Array> {
    const length = call.request.headers['content-length'];
    const room = Math.min(length === undefined ? MAX_INPUT_BYTES : Number(length), MAX_INPUT_BYTES);
    if (this.#bytes > 0 && this.#bytes + room > MAX_READING_BYTES) {
      const headers = { 'retry-after': '1' };
      throw new HttpProblem(503, 'too-many-inputs', 'too many inputs are on their way; try again', { headers });
    }
    this.#bytes += room;
    try {
      return await call.bytes(MAX_INPUT_BYTES);
    } finally {
      this.#bytes -= room;
    }
  }
}

async function retry({ queue, traces }: RunRoutesDeps, call: NodeCall): Promise<NodeReply> {
  const run = await found(queue, call);
  if (!hasEnded(run.status))
    throw new HttpProblem(409, 'not-ended', `the run is ${run.status}; only what has ended is run again`);
  const input = (await queue.input(run.id)) ?? new Uint8Array();
  const id = runId(call.caller, run.namespace, run.task, null);
  const again: NewRun = {
    ...{ id, namespace: run.namespace, task: run.task, revision: run.revision, wasm: run.wasm, pool: run.pool, input },
    submittedBy: call.caller.name,
    maxAttempts: run.max_attempts,
    retryOf: run.id,
    traceparent: traces?.submitted(id, call.trace) ?? null,
  };
  const { run: made } = await queue.submit(again);
  return jsonReply(202, made, { location: `/v1/namespaces/${made.namespace}/runs/${made.id}` });
}

/** Made of who asks for what where there is a key, so that it is the same run however often that is sent. */
function runId({ name, namespace }: Identity, ofRun: string, task: string, key: string | null): string {
  const id =
    key === null
      ? randomBytes(16).toString('hex')
      : hash('sha256', JSON.stringify([ofRun, namespace, name, task, key]));
  return `run-${id.slice(0, 32)}`;
}

function idempotencyKey(given: string | string[] | undefined): string | null {
  if (given === undefined) return null;
  const key = String(given);
  if (key.length > 0 && key.length <= MAX_KEY_CHARS) return key;
  throw new HttpProblem(400, 'invalid-key', `Idempotency-Key: expected 1 to ${MAX_KEY_CHARS} characters`);
}

function waitSeconds(prefer: string | string[] | undefined): number {
  const seconds = Number(/(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])/.exec(String(prefer ?? ''))?.[1] ?? 0);
  return Math.min(seconds, MAX_WAIT_S);
}

/** The run when it has ended, or as it is when the time is over or nobody waits any more. */
async function whenEnded(queue: RunQueue, run: RunRecord, ms: number, signal: AbortSignal): Promise<RunRecord> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = queue.onChange(({ id, status }) => {
    if (id === run.id && hasEnded(status)) resolve();
  });
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => resolve(), { once: true });
  const now = await queue.get(run.namespace, run.id);
  if (now === null || hasEnded(now.status) || signal.aborted) resolve();
  await promise;
  clearTimeout(timer);
  stop();
  return (await queue.get(run.namespace, run.id)) ?? run;
}

export async function found(queue: RunQueue, { params }: NodeCall): Promise<RunRecord> {
  const run = await queue.get(params.namespace ?? '', params.id ?? '');
  if (run === null) throw noSuchRun(params.id);
  return run;
}

const noSuchRun = (id: string | undefined) =>
  new HttpProblem(
    404,
    'no-such-run',
    `there is no run ${JSON.stringify(id)} in this namespace, or it is not kept any more`,
  );

function resultReply(run: RunRecord, body: Uint8Array): NodeReply {
  return {
    status: 200,
    headers: { 'content-type': BYTES, 'spear-run': run.id, 'spear-run-status': run.status },
    body,
  };
}

function filterOf(query: URLSearchParams) {
  const status = query.get('status') ?? undefined;
  const known = runStatuses.find((one) => one === status);
  if (status !== undefined && known === undefined) {
    throw new HttpProblem(400, 'invalid-query', `status: expected one of ${runStatuses.join(', ')}`);
  }
  const cursor = query.get('cursor') ?? undefined;
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
    throw new HttpProblem(400, 'invalid-query', 'cursor: expected what the page before gave');
  }
  const limit = Number(query.get('limit') ?? DEFAULT_PAGE);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE) {
    throw new HttpProblem(400, 'invalid-query', `limit: expected a whole number from 1 to ${MAX_PAGE}`);
  }
  return { task: query.get('task') ?? undefined, status: known, cursor, limit };
}
