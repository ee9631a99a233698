const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const KEEP_THE_METHOD: ReadonlySet<number> = new Set([307, 308]);

/** How many a request follows. */
export const MAX_REDIRECTS = 5;

/**
 * Where a redirect leads, if it is one that is followed: as for the library's own requests, only within the origin, to
 * its https form at most, and only with the same method. A call goes nowhere that its record does not name.
 */
export function followedRedirect(from: URL, method: 'GET' | 'POST', status: number, location: unknown): URL | null {
  if (!REDIRECTS.has(status) || typeof location !== 'string') return null;
  if (method !== 'GET' && !KEEP_THE_METHOD.has(status)) return null;
  const to = URL.parse(location, from);
  if (to === null || to.username !== '' || to.password !== '') return null;
  return isWithinOrigin(from, to) ? to : null;
}

function isWithinOrigin(from: URL, to: URL): boolean {
  if (from.protocol === to.protocol && from.host === to.host) return true;
  const isSafer = from.protocol === 'http:' && to.protocol === 'https:';
  return isSafer && from.hostname === to.hostname && from.port === '' && to.port === '';
}
