import type { FetchLike } from '@modelcontextprotocol/client';
import type { Dispatcher } from 'undici';
import type { EgressRules } from './egress.ts';

export interface HttpClient {
  readonly fetch: FetchLike;
  /** What the fetch goes through; connections and rules are the same. */
  readonly dispatcher: Dispatcher;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 30_000;

/**
 * Undici without its own time limits on answers: streams for notifications are silent for hours, and every request of
 * ours has its deadline anyway. Loaded when the first HTTP server is connected, because it costs 115 ms. Never through
 * a proxy: behind one, nobody here could tell which address is connected to.
 */
export async function createHttpClient(rules: EgressRules): Promise<HttpClient> {
  const [{ Agent, buildConnector, fetch }, { guardedConnector }] = await Promise.all([
    import('undici'),
    import('./egress-connector.ts'),
  ]);
  const connect = guardedConnector(rules, buildConnector, { timeout: CONNECT_TIMEOUT_MS });
  const dispatcher = new Agent({ bodyTimeout: 0, headersTimeout: 0, connect });
  type UndiciInit = Parameters<typeof fetch>[1];
  return {
    dispatcher,
    // The types of Node's own fetch and of the package differ in name only.
    fetch: (url, init) => fetch(url, { ...(init as UndiciInit), dispatcher }) as unknown as Promise<Response>,
    close: () => dispatcher.destroy(),
  };
}
