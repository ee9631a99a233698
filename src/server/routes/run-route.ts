import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { LongRequest } from '../http/caller-limits.ts';
import type { HttpReply } from '../http/http-reply.ts';
import type { RouteDoc } from '../http/openapi.ts';
import { HttpProblem } from '../http/problem.ts';
import type { Caller } from '../identity/caller.ts';
import type { Need } from '../identity/identity.ts';
import type { RunEventSource } from '../queue/run-events.ts';
import type { SubmittedRuns } from '../queue/run-queue.ts';
import type { Identity } from '../records/permissions.ts';
import type { RunRecord } from '../records/run.ts';
import type { SpanContext } from '../telemetry/trace-context.ts';

/** Context of one request about runs, in the registry and in the node. */
export interface RunCall {
  readonly headers: IncomingHttpHeaders;
  readonly query: URLSearchParams;
  /** Decoded path parameters. */
  readonly params: Readonly<Record<string, string>>;
  readonly identity: Identity;
  /** The caller as functions that decide take it, and as the audit log has it. */
  readonly caller: Caller;
  /** Span of this request. Null if the request is not part of a trace, or tracing is off. */
  readonly trace: SpanContext | null;
  /** At most `maxBytes`, else 413. */
  bytes(maxBytes: number): Promise<Uint8Array>;
  /** For routes that stream. */
  readonly response: ServerResponse;
  /** Aborts when the client disconnects, its token is revoked, or the process ends. */
  readonly signal: AbortSignal;
}

export interface RunRoute {
  readonly method: 'GET' | 'POST';
  /** Path parameters are written `{name}`; the listener checks `{namespace}` against the caller. */
  readonly path: string;
  readonly needs: Extract<Need['needs'], 'view' | 'submit' | 'journals'>;
  readonly doc: RouteDoc;
  /** Why the request occupies its connection for long. @default null */
  readonly longRequest?: (headers: IncomingHttpHeaders) => LongRequest | null;
  /** `streamed`: the route wrote the response itself. */
  run(call: RunCall): Promise<HttpReply | 'streamed'>;
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
export async function runOf(runs: SubmittedRuns, { params }: Pick<RunCall, 'params'>): Promise<RunRecord> {
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
