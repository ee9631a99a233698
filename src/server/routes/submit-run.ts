import { hash, randomBytes } from 'node:crypto';
import { type HttpReply, jsonReply } from '../http/http-reply.ts';
import { HttpProblem } from '../http/problem.ts';
import type { AuthenticatedCall } from '../http/route.ts';
import type { ServiceLog } from '../log/service-log.ts';
import { type NewRun, QueueError, type SubmittedRuns } from '../queue/run-queue.ts';
import type { Identity } from '../records/permissions.ts';
import { hasEnded, MAX_INPUT_BYTES, MAX_WAIT_S, type RunRecord } from '../records/run.ts';
import { type TaskBook, unknownTask } from '../tasks/task-book.ts';
import { type Tracer, traceparentOfRun } from '../telemetry/span.ts';
import { type RunBackends, resultReply, runOf } from './run-route.ts';

export interface SubmitDeps {
  readonly backends: RunBackends;
  readonly tasks: Pick<TaskBook, 'find'>;
  readonly isEnding: () => boolean;
  /** Null: runs are not traced. */
  readonly tracer: Tracer | null;
  readonly log: ServiceLog;
}

const MAX_KEY_CHARS = 256;
/** Retry-After if the queue did not answer. */
const RETRY_AFTER_S = '5';

/**
 * Submits a run of the live revision of a task, or returns the run that was submitted with the same key. `shown` adds what
 * the record does not store: the stop that keeps the run in the queue.
 */
export async function submit(
  { backends, tasks, isEnding, tracer, log }: SubmitDeps,
  ends: RunEnds,
  call: AuthenticatedCall,
  shown: (run: RunRecord) => Promise<RunRecord>,
): Promise<HttpReply> {
  const { namespace = '', task: name = '' } = call.params;
  if (isEnding())
    throw new HttpProblem(503, 'shutting-down', 'the server is shutting down', { headers: { 'retry-after': '5' } });
  const { runs } = backends(namespace);
  const task = await tasks.find({ namespace, name });
  if (task === null) throw unknownTask({ namespace, name });
  const key = idempotencyKey(call.headers['idempotency-key']);
  const waitS = waitSeconds(call.headers.prefer);
  const input = await call.bytes(MAX_INPUT_BYTES);
  const { revision, wasm, pool, retry: again } = task.live;
  const id = runId(call.identity, namespace, name, key);
  // Subscribed before the run exists, so that its end cannot be missed.
  const end = waitS === 0 ? null : ends.of(runs, id);
  const submitted = runs.submit({
    ...{ id, namespace, task: name, revision, wasm, pool, input },
    traceparent: tracer && traceparentOfRun(tracer, id, call.trace),
    submittedBy: call.identity.name,
    maxAttempts: again.max_attempts,
  });
  const { run, created } = await submitted.catch((error: unknown) => {
    end?.cancel();
    throw submissionProblem(error, id, key);
  });
  if (created)
    log('info', 'run_submitted', { run: run.id, task: `${namespace}/${name}@${revision}`, by: call.identity.name });
  const headers = { location: `/v1/namespaces/${namespace}/runs/${run.id}`, 'spear-run': run.id };
  if (end === null) return jsonReply(202, await shown(run), headers);
  const ended = await end.reached(run, waitS * 1000, call.signal);
  const applied = { ...headers, 'preference-applied': `wait=${waitS}` };
  if (!hasEnded(ended.status)) return jsonReply(202, await shown(ended), headers);
  if (ended.status === 'succeeded') {
    const reply = resultReply(ended, (await runs.result(run.id)) ?? new Uint8Array());
    return { ...reply, headers: { ...reply.headers, ...applied } };
  }
  const { reason = '', code = null, message = null } = ended.exit ?? {};
  const why = `${reason}${code === null ? '' : ` ${code}`}${message === null ? '' : `: ${message}`}`;
  const again_ = created ? '' : ' (an earlier submission with this key)';
  throw new HttpProblem(424, 'run-failed', `the run ${run.id} ended as ${ended.status}${again_}: ${why}`, {
    headers: { ...applied, 'spear-run-status': ended.status },
  });
}

/** A queue that did not answer may have stored the run, or may still do so. Other errors are returned as they are. */
function submissionProblem(error: unknown, id: string, key: string | null): unknown {
  if (!(error instanceof QueueError) || error.code !== 'unavailable') return error;
  const next =
    key === null
      ? `look for this run before you submit it again: without an Idempotency-Key that would be another run`
      : `submit again with the same Idempotency-Key, which is safe: it is the same run`;
  const headers = { 'retry-after': RETRY_AFTER_S, 'spear-run': id };
  const detail = `${error.message}; the run ${id} may have been stored: ${next}`;
  return new HttpProblem(503, 'queue-unavailable', detail, { headers });
}

/** Submits an ended run again, as a new run. */
export async function retry({ backends, tracer }: SubmitDeps, call: AuthenticatedCall): Promise<HttpReply> {
  const { runs } = backends(call.params.namespace);
  const run = await runOf(runs, call);
  if (!hasEnded(run.status))
    throw new HttpProblem(409, 'not-ended', `the run is ${run.status}; only ended runs can be retried`);
  const input = (await runs.input(run.id)) ?? new Uint8Array();
  const id = runId(call.identity, run.namespace, run.task, null);
  const again: NewRun = {
    ...{ id, namespace: run.namespace, task: run.task, revision: run.revision, wasm: run.wasm, pool: run.pool, input },
    submittedBy: call.identity.name,
    maxAttempts: run.max_attempts,
    retryOf: run.id,
    firstSubmittedBy: run.first_submitted_by ?? run.submitted_by,
    traceparent: tracer && traceparentOfRun(tracer, id, call.trace),
  };
  const { run: made } = await runs.submit(again).catch((error: unknown) => {
    throw submissionProblem(error, id, null);
  });
  return jsonReply(202, made, { location: `/v1/namespaces/${made.namespace}/runs/${made.id}` });
}

/** With an Idempotency-Key the id is derived from caller, task and key, so that a repeated request names the same run. */
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

export function waitSeconds(prefer: string | string[] | undefined): number {
  const seconds = Number(/(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])/.exec(String(prefer ?? ''))?.[1] ?? 0);
  return Math.min(seconds, MAX_WAIT_S);
}

/** Waits for the ends of runs (`Prefer: wait`). All waiters share one listener per queue, because thousands may wait. */
export class RunEnds {
  readonly #waiters = new WeakMap<SubmittedRuns, Map<string, Set<() => void>>>();

  /** Subscribes to the end of a run that may not exist yet. */
  of(runs: SubmittedRuns, id: string): RunEnd {
    const { promise, resolve } = Promise.withResolvers<void>();
    const awaited = this.#listening(runs);
    const others = awaited.get(id) ?? new Set();
    awaited.set(id, others.add(resolve));
    const cancel = () => {
      others.delete(resolve);
      if (others.size === 0) awaited.delete(id);
    };
    const reached = async (run: RunRecord, ms: number, signal: AbortSignal) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (hasEnded(run.status) || signal.aborted) resolve();
      await promise;
      clearTimeout(timer);
      cancel();
      return (await runs.get(run.namespace, run.id)) ?? run;
    };
    return { reached, cancel };
  }

  #listening(runs: SubmittedRuns): Map<string, Set<() => void>> {
    const known = this.#waiters.get(runs);
    if (known !== undefined) return known;
    const awaited = new Map<string, Set<() => void>>();
    this.#waiters.set(runs, awaited);
    runs.onChange(({ id, status }) => {
      if (hasEnded(status)) for (const over of awaited.get(id) ?? []) over();
    });
    return awaited;
  }
}

export interface RunEnd {
  /** Resolves with the run when it has ended, the time is over, or the signal aborts. */
  reached(run: RunRecord, ms: number, signal: AbortSignal): Promise<RunRecord>;
  cancel(): void;
}
