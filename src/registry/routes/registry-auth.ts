import type { IncomingMessage } from 'node:http';
import { peerOf } from '../../server/http/connections.ts';
import type { RequestAuth } from '../../server/http/http-listener.ts';
import type { PeerGate } from '../../server/http/peer-gate.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import {
  type Access,
  type AuthFailure,
  authFailureAdvice,
  type CallerCredentials,
  SESSION_HEADER,
  sessionOfCookie,
} from '../../server/identity/access.ts';
import { mayName, refusal } from '../../server/identity/identity.ts';
import type { RegistryMetrics } from '../registry-metrics.ts';

export interface RegistryAuthOptions {
  readonly access: Access;
  readonly gate: PeerGate;
  readonly scheme: 'http' | 'https';
  readonly metrics: RegistryMetrics;
}

/**
 * Authenticates HTTP requests of the registry by bearer token or session. The caller is identified before anything else of
 * the request is checked, so that floods of unauthenticated requests are rejected at the lowest cost.
 */
export function registryAuth({ access, gate, scheme, metrics }: RegistryAuthOptions) {
  return async (req: IncomingMessage): Promise<RequestAuth | null> => {
    const found = await access.identify(credentialsOf(req, scheme));
    // The connection may have been closed during the lookup.
    if (req.socket.destroyed) return null;
    if (typeof found === 'string' && !gate.mayRequest(peerOf(req.socket))) {
      metrics.shed.add(1, { protocol: 'http', reason: 'flooding' });
      req.socket.destroy();
      return null;
    }
    const identity = typeof found === 'string' ? null : found;
    const deny = (problem: HttpProblem): never => {
      metrics.denied.add(1, { protocol: 'http' });
      throw problem;
    };
    return {
      identity,
      authorize(route, { namespace }) {
        if (typeof found === 'string') return route.needs === 'anybody' ? null : deny(authProblem(found));
        const refused = refusal(found, route);
        if (refused !== null) return deny(new HttpProblem(403, 'not-permitted', refused));
        if (namespace === undefined || mayName(found, namespace)) return found;
        const detail = `"${found.name}" is limited to the namespace "${found.namespace}"`;
        return deny(new HttpProblem(403, 'other-namespace', detail));
      },
      whileValid: (valid, ended) => access.whileValid(valid, ended),
    };
  };
}

/** Without TLS cookies are ignored: on loopback a browser sends them to every port, also to servers of other users. */
function credentialsOf({ method, headers }: IncomingMessage, scheme: 'http' | 'https'): CallerCredentials {
  const text = scheme === 'https' ? sessionOfCookie(headers.cookie) : null;
  const isGuarded = method === 'GET' || method === 'HEAD' || headers[SESSION_HEADER] !== undefined;
  return { authorization: headers.authorization, session: text === null ? null : { text, isGuarded } };
}

function authProblem(failure: AuthFailure): HttpProblem {
  const detail = authFailureAdvice[failure];
  if (failure === 'unguarded') return new HttpProblem(403, 'unguarded', detail);
  if (failure === 'unavailable') {
    return new HttpProblem(503, 'issuer-unavailable', detail, { headers: { 'retry-after': '10' } });
  }
  const headers = { 'www-authenticate': 'Bearer realm="spear-sms"' };
  return new HttpProblem(401, 'unauthorized', detail, { headers });
}
