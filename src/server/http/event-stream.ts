import type { ServerResponse } from 'node:http';

const SLOW_READER_TIMEOUT_MS = 20_000;
const RETRY_MS = 2_000;

/** Begins an answer of server-sent events. */
export async function beginEvents(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  await writeEvents(response, `retry: ${RETRY_MS}\n\n`);
}

/** Waits for a reader that is slow, and cuts it off if it takes nothing for too long. */
export function writeEvents(response: ServerResponse, text: string): Promise<void> {
  if (response.write(text) || response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), SLOW_READER_TIMEOUT_MS);
    const settle = () => {
      clearTimeout(timer);
      response.off('drain', settle);
      response.off('close', settle);
      resolve();
    };
    response.on('drain', settle);
    response.on('close', settle);
  });
}
