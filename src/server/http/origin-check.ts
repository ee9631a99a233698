import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { HttpProblem } from './problem.ts';

export interface OriginPolicy {
  readonly scheme: 'http' | 'https';
  /** Names under which this server may be called, beside `localhost` and plain addresses. */
  readonly hosts: readonly string[];
  /** Origins of web pages that may call it, beside its own. */
  readonly origins: readonly string[];
}

const hostShape = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;

/**
 * A web page can make its own name lead to this address (DNS rebinding), and then asks us with that name in Host. It
 * cannot do so with an address or a name that is ours.
 */
export function hostProblem(host: string | undefined, policy: OriginPolicy): string | null {
  if (host === undefined || !hostShape.test(host)) return 'the Host header is missing or not a valid host';
  const name = host.replace(/:\d+$/, '').toLowerCase();
  if (name === 'localhost' || isIP(name.replace(/^\[|\]$/g, '')) !== 0) return null;
  if (policy.hosts.some((allowed) => allowed.toLowerCase() === name)) return null;
  return `the host "${name}" is not allowed; add it to http.allowed_hosts`;
}

const MAY_SEND = 'authorization, content-type, if-match, if-none-match, last-event-id';
const MAY_READ = 'etag, location';
const METHODS = 'GET, POST, PUT, DELETE';
const PREFLIGHT_VALID_S = 600;

/**
 * What a browser must hear before a page of a listed origin may read an answer. A page sends its token itself, so
 * credentials of the browser are not asked for.
 */
export function crossOriginHeaders(
  origin: string | undefined,
  policy: OriginPolicy,
  preflight: boolean,
): Readonly<Record<string, string>> {
  if (policy.origins.length === 0) return {};
  // Also on answers to others: a cache must not hand one page what was said to another.
  const vary = { vary: 'origin' };
  if (origin === undefined || !policy.origins.includes(origin)) return vary;
  const allowed = { ...vary, 'access-control-allow-origin': origin, 'access-control-expose-headers': MAY_READ };
  if (!preflight) return allowed;
  return {
    ...allowed,
    'access-control-allow-methods': METHODS,
    'access-control-allow-headers': MAY_SEND,
    'access-control-max-age': String(PREFLIGHT_VALID_S),
  };
}

/** Browsers say which page a request comes from; other programs say nothing. */
export function originProblem(origin: string | undefined, host: string, policy: OriginPolicy): string | null {
  if (origin === undefined) return null;
  const own = URL.parse(`${policy.scheme}://${host}`)?.origin;
  if (origin.toLowerCase() === own || policy.origins.includes(origin)) return null;
  return 'cross-origin requests are not allowed; add the origin to http.allowed_origins';
}

/** URL of a request whose Host and Origin are allowed. @throws HttpProblem */
export function checkedUrl(req: IncomingMessage, policy: OriginPolicy): URL {
  const host = req.headers.host;
  const problem = hostProblem(host, policy);
  if (problem !== null) throw new HttpProblem(421, 'unknown-host', problem);
  const foreign = originProblem(req.headers.origin, host ?? '', policy);
  if (foreign !== null) throw new HttpProblem(403, 'foreign-origin', foreign);
  // A path that starts with two slashes would otherwise be read as a host.
  const url = (req.url ?? '').startsWith('/') ? URL.parse(`http://host${req.url}`) : null;
  if (url === null) throw new HttpProblem(400, 'invalid-url', 'the request target is not a path');
  return url;
}
