import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const HOST = '127.0.0.1';
const PATH = '/callback';
const ANSWERED = 'Spear received the response. You can close this window and return to the terminal.\n';
const NOT_OURS = 'This is not the response to a pending login.\n';

/** Where the browser comes back to, on this machine alone. */
export interface LoopbackRedirect {
  readonly url: string;
  /** The answer that has this state. Others are refused and waited past. */
  answer(state: string, signal: AbortSignal): Promise<URLSearchParams>;
  close(): Promise<void>;
}

/** @param port 0: one that is free */
export async function openLoopbackRedirect(port: number): Promise<LoopbackRedirect> {
  let expected: { readonly state: string; readonly arrived: (answer: URLSearchParams) => void } | null = null;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const url = URL.parse(request.url ?? '', `http://${HOST}`);
    const isAnswer =
      request.method === 'GET' && url?.pathname === PATH && url.searchParams.get('state') === expected?.state;
    response.writeHead(isAnswer ? 200 : 400, {
      'content-type': 'text/plain; charset=utf-8',
      'cache-control': 'no-store',
      connection: 'close',
    });
    response.end(isAnswer ? ANSWERED : NOT_OURS);
    if (isAnswer && url !== null) expected?.arrived(url.searchParams);
  });
  server.listen(port, HOST);
  await once(server, 'listening');
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}${PATH}`,
    answer: (state, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = () => reject(signal.reason);
        signal.addEventListener('abort', onAbort, { once: true });
        if (signal.aborted) onAbort();
        expected = {
          state,
          arrived: (answer) => {
            signal.removeEventListener('abort', onAbort);
            resolve(answer);
          },
        };
      }),
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      setTimeout(() => server.closeAllConnections(), CLOSE_MS).unref();
      await closed;
    },
  };
}

/** For the browser to read the last answer. */
const CLOSE_MS = 1_000;
