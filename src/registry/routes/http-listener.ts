import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import { type AdmittedRequest, type CallerLimits, endWith, type LongRequest } from '../../server/http/caller-limits.ts';
import { peerOf } from '../../server/http/connections.ts';
import type { HeldBytes } from '../../server/http/http-reply.ts';
import { type HttpReply, writeReply } from '../../server/http/http-reply.ts';
import type { RouteDoc } from '../../server/http/openapi.ts';
import { checkedUrl, crossOriginHeaders, type OriginPolicy } from '../../server/http/origin-check.ts';
import type { PeerGate } from '../../server/http/peer-gate.ts';
import { HttpProblem, problemOf } from '../../server/http/problem.ts';
import { GONE, type HttpCall, RouteTable, utf8Text } from '../../server/http/route.ts';
import {
  type Access,
  type AuthFailure,
  authFailureAdvice,
  type CallerCredentials,
  SESSION_HEADER,
  sessionOfCookie,
} from '../../server/identity/access.ts';
import { Caller } from '../../server/identity/caller.ts';
import { mayName, type Need, refusal } from '../../server/identity/identity.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { Identity } from '../../server/records/permissions.ts';
import { beginHttpSpan, endHttpSpan } from '../../server/telemetry/server-span.ts';
import type { Span, Tracer } from '../../server/telemetry/span.ts';
import { parseTraceparent, type SpanContext } from '../../server/telemetry/trace-context.ts';
import type { RegistryMetrics } from '../registry-metrics.ts';

export interface Route extends Need {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Its variable parts are `{name}`; a `{namespace}` is checked against the caller's. */
  readonly path: string;
  /** It is no GET because of what it carries: it changes nothing, and the trail has no line of it. @default false */
  readonly isQuestion?: true;
  /** Whether this request keeps its connection. @default null: it does not */
  readonly longRequest?: (headers: IncomingHttpHeaders) => LongRequest | null;
  /** For the description of the interface. @default it is not in there */
  readonly doc?: RouteDoc;
  /** `streamed`: the route has answered by itself. */
  run(call: HttpCall): Promise<HttpReply | 'streamed'>;
}

export interface HttpListenerOptions {
  readonly routes: readonly Route[];
  readonly access: Access;
  readonly origins: OriginPolicy;
  /** What answers that are on their way take. */
  readonly held: HeldBytes;
  readonly gate: PeerGate;
  readonly callers: CallerLimits;
  readonly slowReaderMs: number;
  readonly shutdown: AbortSignal;
  readonly metrics: RegistryMetrics;
  /** Null: requests are not traced. */
  readonly tracer: Tracer | null;
  readonly trail: SmsTrail;
  readonly log: ServiceLog;
}

/** The caller has no token, the wrong one, or comes from where nobody may. */
const denials: ReadonlySet<number> = new Set([401, 403, 421]);
/** Up to here an answer costs no more than its connection. */
const SMALL_ANSWER_BYTES = 64 * 1024;

export function httpListener(options: HttpListenerOptions): (req: IncomingMessage, res: ServerResponse) => void {
  const routes = new RouteTable(options.routes);
  return (req, res) => {
    req.on('error', () => {});
    res.on('error', () => {});
    void options.access.identify(credentialsOf(req, options.origins)).then(async (who) => {
      // Its connection may have been closed while it was found out who it is from.
      if (!req.socket.destroyed && !isFlood(req, who, options)) await serve(req, res, who, routes, options);
    });
  };
}

/** Without TLS no cookie counts: on loopback browsers send it to every port, whoever listens there. */
function credentialsOf({ method, headers }: IncomingMessage, { scheme }: OriginPolicy): CallerCredentials {
  const text = scheme === 'https' ? sessionOfCookie(headers.cookie) : null;
  const isGuarded = method === 'GET' || method === 'HEAD' || headers[SESSION_HEADER] !== undefined;
  return { authorization: headers.authorization, session: text === null ? null : { text, isGuarded } };
}

/** Whether the request is one too many of those whom nobody knows; then its connection is gone. */
function isFlood(req: IncomingMessage, who: Identity | AuthFailure, { gate, metrics }: HttpListenerOptions): boolean {
  if (typeof who !== 'string' || gate.mayRequest(peerOf(req.socket))) return false;
  metrics.shed.add(1, { protocol: 'http', reason: 'flooding' });
  req.socket.destroy();
  return true;
}

async function serve(
  req: IncomingMessage,
  res: ServerResponse,
  who: Identity | AuthFailure,
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
    // Set ahead, so that streams and errors carry them too.
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
    caller = Caller.request(req, 'http', label, typeof who === 'string' ? null : who);
    const identity = admitted(who, route, params, options);
    const limited = route.needs === 'anybody' ? null : (identity?.name ?? null);
    const request = options.callers.admit(limited, req.socket, route.longRequest?.(req.headers) ?? null);
    endWith(res, request);
    const trace = parseTraceparent(req.headers.traceparent) === null ? null : (span?.context ?? null);
    const call = callOf(req, res, { url, params, identity, caller, trace, request }, options);
    reply = await route.run(call);
    if (route.method !== 'GET' && !route.isQuestion)
      options.trail.write({ event: 'sms.served', ...caller, code: codeOf(reply, res) });
  } catch (error) {
    const problem = problemOf(error) ?? unexpected(error, label, options.log);
    const { status, kind: reason } = problem;
    const isChange = req.method !== 'GET' && req.method !== 'HEAD';
    options.trail.refused(caller, { code: String(status), reason, isDenial: denials.has(status) }, isChange);
    reply = problem.toReply();
  }
  options.metrics.requests.add(1, { protocol: 'http', method: label, code: codeOf(reply, res) });
  if (span !== null) endHttpSpan(span, Number(codeOf(reply, res)));
  if (reply !== 'streamed') send(req, res, reply, options);
}

const codeOf = (reply: HttpReply | 'streamed', res: ServerResponse) =>
  String(reply === 'streamed' ? res.statusCode : reply.status);

/** Who is let in by the route; null: it lets in everybody, and this is nobody of ours. */
function admitted(
  who: Identity | AuthFailure,
  route: Route,
  { namespace }: Readonly<Record<string, string>>,
  { metrics }: HttpListenerOptions,
): Identity | null {
  if (typeof who === 'string') {
    if (route.needs === 'anybody') return null;
    metrics.denied.add(1, { protocol: 'http' });
    throw authFailureProblem(who);
  }
  const refused = refusal(who, route);
  if (refused === null && (namespace === undefined || mayName(who, namespace))) return who;
  metrics.denied.add(1, { protocol: 'http' });
  if (refused !== null) throw new HttpProblem(403, 'not-permitted', refused);
  throw new HttpProblem(403, 'other-namespace', `"${who.name}" is limited to the namespace "${who.namespace}"`);
}

function authFailureProblem(who: AuthFailure): HttpProblem {
  const detail = authFailureAdvice[who];
  if (who === 'unguarded') return new HttpProblem(403, 'unguarded', detail);
  if (who === 'unavailable') {
    return new HttpProblem(503, 'issuer-unavailable', detail, { headers: { 'retry-after': '10' } });
  }
  const headers = { 'www-authenticate': 'Bearer realm="spear-sms"' };
  return new HttpProblem(401, 'unauthorized', detail, { headers });
}

function callOf(
  req: IncomingMessage,
  res: ServerResponse,
  {
    url,
    params,
    identity,
    caller,
    trace,
    request,
  }: {
    readonly url: URL;
    readonly params: Readonly<Record<string, string>>;
    readonly identity: Identity | null;
    readonly caller: Caller;
    readonly trace: SpanContext | null;
    readonly request: AdmittedRequest;
  },
  { access, shutdown }: HttpListenerOptions,
): HttpCall {
  const gone = new AbortController();
  const forget = identity === null ? () => {} : access.whileValid(identity, () => gone.abort(GONE));
  res.once('close', () => {
    forget();
    gone.abort(GONE);
  });
  return {
    headers: req.headers,
    query: url.searchParams,
    params,
    id: params.id ?? '',
    identity,
    caller,
    trace,
    text: async (maxBytes) => utf8Text(await request.body(req, maxBytes)),
    bytes: (maxBytes) => request.body(req, maxBytes),
    response: res,
    signal: AbortSignal.any([gone.signal, shutdown]),
  };
}

function unexpected(error: unknown, label: string, log: ServiceLog): HttpProblem {
  log('error', 'http_failed', { method: label, reason: String(error) });
  return new HttpProblem(500, 'internal', 'internal error; see the log of the registry');
}

function send(req: IncomingMessage, res: ServerResponse, reply: HttpReply, options: HttpListenerOptions): void {
  if (res.headersSent || res.destroyed) return;
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  const release = body.length < SMALL_ANSWER_BYTES ? () => {} : options.held.hold(peerOf(req.socket), body);
  if (release === null) {
    options.metrics.shed.add(1, { protocol: 'http', reason: 'too_many' });
    const detail = 'too many responses are waiting for slow clients; try again';
    const headers = { 'retry-after': '1' };
    send(req, res, new HttpProblem(503, 'too-many-answers', detail, { headers }).toReply(), options);
    return;
  }
  res.once('close', release);
  writeReply(req, res, { ...reply, body }, options.slowReaderMs);
}
