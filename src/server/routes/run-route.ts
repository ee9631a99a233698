import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { Lasting } from '../http/caller-limits.ts';
import type { HttpReply } from '../http/http-reply.ts';
import type { RouteDoc } from '../http/route-doc.ts';
import type { Caller } from '../identity/caller.ts';
import type { Identity, Need } from '../identity/identity.ts';
import type { RunEventSource } from '../queue/run-events.ts';
import type { SubmittedRuns } from '../queue/run-queue.ts';
import type { SpanContext } from '../telemetry/trace-context.ts';

/** One request about runs, as a registry and a node both have it. */
export interface RunCall {
  readonly headers: IncomingHttpHeaders;
  readonly query: URLSearchParams;
  /** The variable parts of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly identity: Identity;
  /** The caller as functions that decide take it, and as the audit log has it. */
  readonly caller: Caller;
  /** The span of this request, where it came as a part of a trace; null: it did not, or nobody traces. */
  readonly trace: SpanContext | null;
  /** At most `maxBytes`, else 413. */
  bytes(maxBytes: number): Promise<Uint8Array>;
  /** For answers that never end. */
  readonly response: ServerResponse;
  /** Aborts when the client has gone, is no longer who they were, or the process ends. */
  readonly signal: AbortSignal;
}

export interface RunRoute {
  readonly method: 'GET' | 'POST';
  /** Its variable parts are `{name}`; whoever serves it checks `{namespace}` against the caller's. */
  readonly path: string;
  readonly needs: Extract<Need['needs'], 'view' | 'submit' | 'journals'>;
  readonly doc: RouteDoc;
  /** Whether this request keeps its connection. @default null: it does not */
  readonly lasts?: (headers: IncomingHttpHeaders) => Lasting | null;
  /** `streamed`: the route has answered by itself. */
  run(call: RunCall): Promise<HttpReply | 'streamed'>;
}

/** Where runs are, with what they did and told. */
export interface KeptRuns {
  readonly runs: SubmittedRuns;
  readonly journals: {
    /** As it stands there; null: there is none. */
    read(namespace: string, run: string): Promise<Uint8Array | null>;
  };
  readonly events: RunEventSource;
}

/** Those of a namespace. @throws HttpProblem where there are none, or they cannot be reached now */
export type FindRuns = (namespace: string | undefined) => KeptRuns;

export const RUNS_PATH = '/v1/namespaces/{namespace}/runs';
export const RUN_PATH = `${RUNS_PATH}/{id}`;
