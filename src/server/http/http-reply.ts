import type { IncomingMessage, ServerResponse } from 'node:http';

export interface HttpReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

export function jsonReply(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): HttpReply {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: `${JSON.stringify(value)}\n` };
}

const commonHeaders = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };

/** Sends a reply, unless one was sent. A client that reads nothing for `slowReaderMs` is disconnected. */
export function writeReply(req: IncomingMessage, res: ServerResponse, reply: HttpReply, slowReaderMs: number): void {
  if (res.headersSent || res.destroyed) return;
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  res.setTimeout(slowReaderMs, () => res.destroy());
  const headers = { ...commonHeaders, ...reply.headers, 'content-length': String(body.length) };
  // The next request would start inside a body that was not read to its end.
  const hasBody = req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined;
  const unread = hasBody && !req.complete ? { connection: 'close' } : {};
  res.writeHead(reply.status, { ...headers, ...unread });
  res.end(req.method === 'HEAD' ? undefined : body);
}
