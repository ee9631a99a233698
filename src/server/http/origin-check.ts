import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { HttpProblem } from './problem.ts';

export interface OriginPolicy {
  readonly scheme: 'http' | 'https';
  /** Host names that requests may use, besides `localhost` and IP addresses. */
  readonly hosts: readonly string[];
  /** Origins of web pages that may call this server, besides its own origin. */
  readonly origins: readonly string[];
}

const hostShape = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;

/**
 * Why a Host header is rejected; null if it is allowed. Protects against DNS rebinding: a web page can point its own name
 * at this address, but then its requests carry that name in Host.
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

/** CORS headers for pages of a listed origin. Pages send their token themselves, so credentials are not allowed. */
export function crossOriginHeaders(
  origin: string | undefined,
  policy: OriginPolicy,
  preflight: boolean,
): Readonly<Record<string, string>> {
  if (policy.origins.length === 0) return {};
  // On every response, so that caches keep responses to different origins apart.
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

/** Why an Origin header is rejected; null if it is allowed. Only browsers send the header. */
export function originProblem(origin: string | undefined, host: string, policy: OriginPolicy): string | null {
  if (origin === undefined) return null;
  const own = URL.parse(`${policy.scheme}://${host}`)?.origin;
  if (origin.toLowerCase() === own || policy.origins.includes(origin)) return null;
  return 'cross-origin requests are not allowed; add the origin to http.allowed_origins';
}

/** Checks Host and Origin of a request and parses its URL. @throws HttpProblem */
export function checkedUrl(req: IncomingMessage, policy: OriginPolicy): URL {
  const host = req.headers.host;
  const problem = hostProblem(host, policy);
  if (problem !== null) throw new HttpProblem(421, 'unknown-host', problem);
  const foreign = originProblem(req.headers.origin, host ?? '', policy);
  if (foreign !== null) throw new HttpProblem(403, 'foreign-origin', foreign);
  // A path that starts with two slashes would otherwise be parsed as a host.
  const url = (req.url ?? '').startsWith('/') ? URL.parse(`http://host${req.url}`) : null;
  if (url === null) throw new HttpProblem(400, 'invalid-url', 'the request target is not a path');
  return url;
}
