import type { FetchLike } from '@modelcontextprotocol/client';

export interface HttpClient {
  readonly fetch: FetchLike;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 30_000;

/**
 * Undici without its own time limits on answers: streams for notifications are silent for hours, and every request of
 * ours has its deadline anyway. Loaded when the first HTTP server is connected, because it costs 115 ms.
 */
export async function createHttpClient(): Promise<HttpClient> {
  const { Agent, fetch } = await import('undici');
  const dispatcher = new Agent({ bodyTimeout: 0, headersTimeout: 0, connect: { timeout: CONNECT_TIMEOUT_MS } });
  type UndiciInit = Parameters<typeof fetch>[1];
  return {
    // The types of Node's own fetch and of the package differ in name only.
    fetch: (url, init) => fetch(url, { ...(init as UndiciInit), dispatcher }) as unknown as Promise<Response>,
    close: () => dispatcher.destroy(),
  };
}
