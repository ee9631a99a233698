import type { FetchLike } from '@modelcontextprotocol/client';
import { readChallenge, type TokenRefusal, tokenRefusal } from './challenge.ts';
import type { ServerTokens } from './server-tokens.ts';

/**
 * A fetch that brings the server's token along. A request that is refused for its token never ran: it is sent once more
 * with a new one, and once more with a wider one.
 */
export function authorizedFetch(fetch: FetchLike, server: URL, tokens: ServerTokens): FetchLike {
  return async (url, init) => {
    if (!isWithin(server, url)) return fetch(url, init);
    const mended = new Set<TokenRefusal['kind']>();
    for (;;) {
      const used = await tokens.authorization();
      const headers = new Headers(init?.headers);
      if (used !== null) headers.set('authorization', used);
      const response = await fetch(url, { ...init, headers });
      const refusal = tokenRefusal(response.status, readChallenge(response.headers.get('www-authenticate')));
      if (refusal === null || mended.has(refusal.kind)) return response;
      mended.add(refusal.kind);
      if (!(await tokens.renewed(used, refusal))) return response;
      await response.body?.cancel();
    }
  };
}

/** A token goes nowhere but to the server it is for; its https form counts as the server itself. */
function isWithin(server: URL, address: string | URL): boolean {
  const url = new URL(address);
  if (url.origin === server.origin) return true;
  return server.protocol === 'http:' && url.protocol === 'https:' && url.host === server.host && url.port === '';
}
