import { isIP } from 'node:net';

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
  if (host === undefined || !hostShape.test(host)) return 'the Host header is missing or not a host';
  const name = host.replace(/:\d+$/, '').toLowerCase();
  if (name === 'localhost' || isIP(name.replace(/^\[|\]$/g, '')) !== 0) return null;
  if (policy.hosts.some((allowed) => allowed.toLowerCase() === name)) return null;
  return `this server is not known as "${name}"; list it in http.allowed_hosts`;
}

/** Browsers say which page a request comes from; other programs say nothing. */
export function originProblem(origin: string | undefined, host: string, policy: OriginPolicy): string | null {
  if (origin === undefined) return null;
  const own = URL.parse(`${policy.scheme}://${host}`)?.origin;
  if (origin.toLowerCase() === own || policy.origins.includes(origin)) return null;
  return 'web pages of other origins may not call this server; list them in http.allowed_origins';
}
