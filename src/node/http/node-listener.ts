import type { IncomingMessage } from 'node:http';
import type { CallerLimits } from '../../server/http/caller-limits.ts';
import { peerOf } from '../../server/http/connections.ts';
import { httpListener, type RequestAuth } from '../../server/http/http-listener.ts';
import type { OriginPolicy } from '../../server/http/origin-check.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { mayName, refusal } from '../../server/identity/identity.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { Identity } from '../../server/records/permissions.ts';
import type { Tracer } from '../../server/telemetry/span.ts';
import type { NodeAccess } from '../node-access.ts';
import type { NodeMetrics } from '../node-metrics.ts';
import type { NodeRoute } from './node-route.ts';

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

/** A client that reads nothing for this long is disconnected. */
const SLOW_READER_MS = 30_000;
const RETRY_AFTER_S = '1';
const anonymous: Identity = { name: 'anonymous', roles: [], namespace: '', mayReadJournals: false, expiresAtMs: null };

/** The HTTP listener of a node: tokens are looked up only for routes that require one. */
export function nodeListener({ routes, access, metrics, ...shared }: NodeListenerOptions) {
  return httpListener({
    ...shared,
    server: 'node',
    routes: routes.map(
      (route): Route => ({
        ...route,
        namespaced: true,
        run: (call) => route.run({ ...call, identity: call.identity ?? anonymous }),
      }),
    ),
    authenticate: async (req) => nodeAuth(req, access, metrics),
    held: null,
    slowReaderMs: SLOW_READER_MS,
    onRequest: (method, status) => metrics.requests.add(1, { method, code: String(status) }),
    audit: null,
  });
}

function nodeAuth(req: IncomingMessage, access: NodeAccess, metrics: NodeMetrics): RequestAuth {
  const { authorization } = req.headers;
  const peer = peerOf(req.socket);
  return {
    identity: null,
    async authorize(route, { namespace }) {
      if (route.needs === 'anybody') return null;
      const caller = await access.identify(authorization, peer);
      if (typeof caller === 'string') {
        if (caller === 'too_many') metrics.shed.add(1, { reason: 'token_lookups' });
        throw problems[caller]();
      }
      const refused = refusal(caller, route);
      if (refused !== null) throw new HttpProblem(403, 'not-permitted', refused);
      if (namespace === undefined || mayName(caller, namespace)) return caller;
      throw new HttpProblem(403, 'other-namespace', `this token is limited to the namespace "${caller.namespace}"`);
    },
    whileValid: (identity, ended) => access.whileValid(authorization, peer, identity, ended),
  };
}

const problems = {
  unavailable: () =>
    new HttpProblem(
      503,
      'registry-unavailable',
      'the token cannot be checked: the registry is unreachable; try again, or use a token of this node',
      { headers: { 'retry-after': RETRY_AFTER_S } },
    ),
  too_many: () =>
    new HttpProblem(429, 'too-many-lookups', 'too many unknown tokens were sent from this address; try again', {
      headers: { 'retry-after': RETRY_AFTER_S },
    }),
  unknown: () =>
    new HttpProblem(
      401,
      'unauthorized',
      'a valid token is required: send "Authorization: Bearer TOKEN" with a token of the registry ' +
        '("spear tokens create"), or with the content of a token file in the data directory of the node',
      { headers: { 'www-authenticate': 'Bearer realm="spearlet"' } },
    ),
};
