import type { IncomingMessage, ServerResponse } from 'node:http';
import { type CallerLimits, endWith } from '../../server/http/caller-limits.ts';
import { peerOf } from '../../server/http/connections.ts';
import { writeReply } from '../../server/http/http-reply.ts';
import { checkedUrl, type OriginPolicy } from '../../server/http/origin-check.ts';
import { HttpProblem, problemOf } from '../../server/http/problem.ts';
import { GONE, RouteTable } from '../../server/http/route.ts';
import { Caller } from '../../server/identity/caller.ts';
import { mayName, refusal } from '../../server/identity/identity.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { Identity } from '../../server/records/permissions.ts';
import { beginHttpSpan, endHttpSpan } from '../../server/telemetry/server-span.ts';
import type { Span, Tracer } from '../../server/telemetry/span.ts';
import { parseTraceparent } from '../../server/telemetry/trace-context.ts';
import type { NodeAccess } from '../node-access.ts';
import type { NodeMetrics } from '../node-metrics.ts';
import type { NodeReply, NodeRoute } from './node-route.ts';

export interface NodeListenerOptions {
  readonly routes: readonly NodeRoute[];
  readonly access: NodeAccess;
  readonly origins: OriginPolicy;
  readonly shutdown: AbortSignal;
  readonly callers: CallerLimits;
  readonly metrics: NodeMetrics;
  /** Null: requests are not traced. */
  readonly tracer: Tracer | null;
  readonly log: ServiceLog;
}

/** Who does not read an answer for so long does not get it. */
const SLOW_READER_MS = 30_000;
const RETRY_AFTER_S = '1';
/** Status in traces of a request whose client disconnected. */
const CLIENT_CLOSED = 499;
const nobody: Identity = { name: 'anonymous', roles: [], namespace: '', mayReadJournals: false, expiresAtMs: null };

export function nodeListener(options: NodeListenerOptions): (req: IncomingMessage, res: ServerResponse) => void {
  const routes = new RouteTable(options.routes);
  return (req, res) => {
    req.on('error', () => {});
    res.on('error', () => {});
    void serve(req, res, routes, options);
  };
}

async function serve(
  req: IncomingMessage,
  res: ServerResponse,
  routes: RouteTable<NodeRoute>,
  options: NodeListenerOptions,
): Promise<void> {
  let label = 'none';
  let span: Span | null = null;
  let reply: NodeReply | 'streamed';
  try {
    const url = checkedUrl(req, options.origins);
    const { route, params } = routes.find(req.method ?? '', url.pathname);
    label = `${route.method} ${route.path}`;
    const { traceparent } = req.headers;
    if (options.tracer !== null && route.needs !== 'anybody') {
      span = beginHttpSpan(options.tracer, traceparent, route.method, route.path);
    }
    const identity = await allowed(req, route, params, options);
    // The client may have disconnected while its token was looked up: nothing would end what its request begins.
    if (res.closed) {
      if (span !== null) endHttpSpan(span, CLIENT_CLOSED);
      return;
    }
    const name = identity === nobody ? null : identity.name;
    const request = options.callers.admit(name, req.socket, route.longRequest?.(req.headers) ?? null);
    endWith(res, request);
    const gone = new AbortController();
    const whileValid = (ended: () => void) =>
      identity === nobody
        ? () => {}
        : options.access.whileValid(req.headers.authorization, peerOf(req.socket), identity, ended);
    const forget = whileValid(() => gone.abort(GONE));
    res.once('close', () => {
      forget();
      gone.abort(GONE);
    });
    const nodeCall = {
      headers: req.headers,
      response: res,
      query: url.searchParams,
      params,
      identity,
      caller: Caller.request(req, 'http', label, identity),
      trace: parseTraceparent(traceparent) === null ? null : (span?.context ?? null),
      whileValid,
      bytes: (maxBytes: number) => request.body(req, maxBytes),
      signal: AbortSignal.any([gone.signal, options.shutdown]),
    };
    reply = await route.run(nodeCall);
  } catch (error) {
    reply = problemReply(error, label, options.log);
  }
  const status = reply === 'streamed' ? res.statusCode : reply.status;
  options.metrics.requests.add(1, { method: label, code: String(status) });
  if (span !== null) endHttpSpan(span, status);
  if (reply !== 'streamed') writeReply(req, res, reply, SLOW_READER_MS);
}

function problemReply(error: unknown, label: string, log: ServiceLog): NodeReply {
  const known = problemOf(error);
  if (known !== null) return known.toReply();
  log('error', 'http_failed', { method: label, reason: String(error) });
  return new HttpProblem(500, 'internal', 'internal error; see the log of the node').toReply();
}

/** Who calls, if they may. A token of one namespace cannot name another. */
async function allowed(
  req: IncomingMessage,
  { needs }: NodeRoute,
  { namespace }: Readonly<Record<string, string>>,
  { access, metrics }: NodeListenerOptions,
): Promise<Identity> {
  if (needs === 'anybody') return nobody;
  const caller = await access.identify(req.headers.authorization, peerOf(req.socket));
  if (caller === 'unavailable') {
    const detail = 'the token cannot be checked: the registry is unreachable; try again, or use a token of this node';
    throw new HttpProblem(503, 'registry-unavailable', detail, { headers: { 'retry-after': RETRY_AFTER_S } });
  }
  if (caller === 'too_many') {
    metrics.shed.add(1, { reason: 'token_lookups' });
    const detail = 'too many unknown tokens were sent from this address; try again';
    throw new HttpProblem(429, 'too-many-lookups', detail, { headers: { 'retry-after': RETRY_AFTER_S } });
  }
  if (caller === 'unknown') {
    const detail =
      'a valid token is required: send "Authorization: Bearer TOKEN" with a token of the registry ' +
      '("spear tokens create"), or with the content of a token file in the data directory of the node';
    throw new HttpProblem(401, 'unauthorized', detail, { headers: { 'www-authenticate': 'Bearer realm="spearlet"' } });
  }
  const refused = refusal(caller, { needs, namespaced: true });
  if (refused !== null) throw new HttpProblem(403, 'not-permitted', refused);
  if (namespace !== undefined && !mayName(caller, namespace)) {
    throw new HttpProblem(403, 'other-namespace', `this token is limited to the namespace "${caller.namespace}"`);
  }
  return caller;
}
