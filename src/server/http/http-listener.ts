/**
 * HTTP listener of the registry and of the node: one request from its headers to its response.
 *
 * Order of a request: authenticate (rejects floods) → Host and Origin → CORS preflight → route → span → authorize →
 * caller limits → route handler → audit → metrics → response. Every error becomes an RFC 9457 problem; an unknown error is
 * logged and answered with 500 without its text.
 *
 * Invariants
 * - A route handler runs only after authorization, and only while its client is connected.
 * - `call.signal` aborts when the client disconnects, its token is revoked, or the server closes.
 * - Responses above 64 KiB are counted by `held` until the client has read them.
 *
 * The products provide routes, an authenticator and hooks. Connections, timeouts and TLS belong to http-server.ts.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Caller } from '../identity/caller.ts';
import type { ServiceLog } from '../log/service-log.ts';
import type { Identity } from '../records/permissions.ts';
import { beginHttpSpan, endHttpSpan } from '../telemetry/server-span.ts';
import type { Span, Tracer } from '../telemetry/span.ts';
import { parseTraceparent } from '../telemetry/trace-context.ts';
import { type CallerLimits, endWith } from './caller-limits.ts';
import { peerOf } from './connections.ts';
import { type HeldBytes, type HttpReply, writeReply } from './http-reply.ts';
import { checkedUrl, crossOriginHeaders, type OriginPolicy } from './origin-check.ts';
import { HttpProblem, problemOf } from './problem.ts';
import { GONE, type HttpCall, type Route, RouteTable, utf8Text } from './route.ts';

/** Authentication of one request. */
export interface RequestAuth {
  /** The caller if it is known before authorization; used in audit events of rejected requests. */
  readonly identity: Identity | null;
  /** The caller if the route admits it; null for an unauthenticated caller of a public route. @throws HttpProblem */
  authorize(route: Route, params: Readonly<Record<string, string>>): Identity | null | Promise<Identity | null>;
  /** Calls `ended` once when the identity is no longer valid. Returns the function that stops watching. */
  whileValid(identity: Identity, ended: () => void): () => void;
}

export interface HttpListenerOptions {
  /** For messages: "see the log of the …". */
  readonly server: 'registry' | 'node';
  readonly routes: readonly Route[];
  /** Null: the request was rejected and its connection destroyed. */
  readonly authenticate: (req: IncomingMessage) => Promise<RequestAuth | null>;
  readonly origins: OriginPolicy;
  readonly callers: CallerLimits;
  /** Limit of buffered responses. Null: no limit. */
  readonly held: HeldBytes | null;
  readonly slowReaderMs: number;
  readonly shutdown: AbortSignal;
  /** Null: requests are not traced. */
  readonly tracer: Tracer | null;
  readonly log: ServiceLog;
  /** Called for every request, with its route and status. */
  readonly onRequest: (label: string, status: number) => void;
  /** Called when a response is rejected because too many are buffered. */
  readonly onShed?: () => void;
  /** Audit of changes and rejected requests. Null: routes write their own events. */
  readonly audit: RequestAudit | null;
}

export interface RequestAudit {
  served(caller: Caller, status: number): void;
  refused(caller: Caller, problem: HttpProblem, isChange: boolean): void;
}

/** Status in traces of a request whose client disconnected. */
const CLIENT_CLOSED = 499;
/** Smaller responses cost no more than their connection and are not counted. */
const SMALL_RESPONSE_BYTES = 64 * 1024;

export function httpListener(options: HttpListenerOptions): (req: IncomingMessage, res: ServerResponse) => void {
  const routes = new RouteTable(options.routes);
  return (req, res) => {
    req.on('error', () => {});
    res.on('error', () => {});
    void options.authenticate(req).then((auth) => auth && serve(req, res, auth, routes, options));
  };
}

async function serve(
  req: IncomingMessage,
  res: ServerResponse,
  auth: RequestAuth,
  routes: RouteTable<Route>,
  options: HttpListenerOptions,
): Promise<void> {
  let label = 'none';
  let span: Span | null = null;
  let caller = Caller.request(req, 'http', label, null);
  let reply: HttpReply | 'streamed';
  try {
    const url = checkedUrl(req, options.origins);
    const preflight = req.method === 'OPTIONS' && req.headers['access-control-request-method'] !== undefined;
    const crossOrigin = crossOriginHeaders(req.headers.origin, options.origins, preflight);
    // Set before the route runs, so that streams and errors carry the headers too.
    for (const [name, value] of Object.entries(crossOrigin)) res.setHeader(name, value);
    if (preflight && crossOrigin['access-control-allow-origin'] !== undefined) {
      send(req, res, { status: 204, body: '' }, options);
      return;
    }
    const { route, params } = routes.find(req.method ?? '', url.pathname);
    label = `${route.method} ${route.path}`;
    if (options.tracer !== null && route.needs !== 'anybody') {
      span = beginHttpSpan(options.tracer, req.headers.traceparent, route.method, route.path);
    }
    caller = Caller.request(req, 'http', label, auth.identity);
    const identity = await auth.authorize(route, params);
    // The client may have disconnected during a token lookup: then nothing would end what the request begins.
    if (res.closed) {
      if (span !== null) endHttpSpan(span, CLIENT_CLOSED);
      return;
    }
    caller = Caller.request(req, 'http', label, identity);
    const call = callOf(req, res, { route, url, params, identity, caller, span }, auth, options);
    reply = await route.run(call);
    if (route.method !== 'GET' && !route.isQuestion) options.audit?.served(caller, statusOf(reply, res));
  } catch (error) {
    const problem = problemOf(error) ?? internalError(error, label, options);
    options.audit?.refused(caller, problem, req.method !== 'GET' && req.method !== 'HEAD');
    reply = problem.toReply();
  }
  const status = statusOf(reply, res);
  options.onRequest(label, status);
  if (span !== null) endHttpSpan(span, status);
  if (reply !== 'streamed') send(req, res, reply, options);
}

const statusOf = (reply: HttpReply | 'streamed', res: ServerResponse) =>
  reply === 'streamed' ? res.statusCode : reply.status;

interface RoutedRequest extends Pick<HttpCall, 'params' | 'identity' | 'caller'> {
  readonly route: Route;
  readonly url: URL;
  readonly span: Span | null;
}

/** @throws HttpProblem 429 */
function callOf(
  req: IncomingMessage,
  res: ServerResponse,
  { route, url, params, identity, caller, span }: RoutedRequest,
  auth: RequestAuth,
  { callers, shutdown }: HttpListenerOptions,
): HttpCall {
  const limited = route.needs === 'anybody' ? null : (identity?.name ?? null);
  const request = callers.admit(limited, req.socket, route.longRequest?.(req.headers) ?? null);
  endWith(res, request);
  const gone = new AbortController();
  const whileValid = (ended: () => void) => (identity === null ? () => {} : auth.whileValid(identity, ended));
  const stopWatching = whileValid(() => gone.abort(GONE));
  res.once('close', () => {
    stopWatching();
    gone.abort(GONE);
  });
  return {
    headers: req.headers,
    query: url.searchParams,
    params,
    id: params.id ?? '',
    identity,
    caller,
    trace: parseTraceparent(req.headers.traceparent) === null ? null : (span?.context ?? null),
    whileValid,
    text: async (maxBytes) => utf8Text(await request.body(req, maxBytes)),
    bytes: (maxBytes) => request.body(req, maxBytes),
    response: res,
    signal: AbortSignal.any([gone.signal, shutdown]),
  };
}

function internalError(error: unknown, label: string, { server, log }: HttpListenerOptions): HttpProblem {
  log('error', 'http_failed', { method: label, reason: String(error) });
  return new HttpProblem(500, 'internal', `internal error; see the log of the ${server}`);
}

function send(req: IncomingMessage, res: ServerResponse, reply: HttpReply, options: HttpListenerOptions): void {
  if (res.headersSent || res.destroyed) return;
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  const { held, slowReaderMs, onShed } = options;
  const release = held === null || body.length < SMALL_RESPONSE_BYTES ? () => {} : held.hold(peerOf(req.socket), body);
  if (release === null) {
    onShed?.();
    const detail = 'too many responses are waiting for slow clients; try again';
    const problem = new HttpProblem(503, 'too-many-answers', detail, { headers: { 'retry-after': '1' } });
    send(req, res, problem.toReply(), options);
    return;
  }
  res.once('close', release);
  writeReply(req, res, { ...reply, body }, slowReaderMs);
}
