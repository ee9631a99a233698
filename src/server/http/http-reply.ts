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

/** Sends a reply unless headers were sent. A client that reads nothing for `slowReaderMs` is disconnected. */
export function writeReply(req: IncomingMessage, res: ServerResponse, reply: HttpReply, slowReaderMs: number): void {
  if (res.headersSent || res.destroyed) return;
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  res.setTimeout(slowReaderMs, () => res.destroy());
  const headers = { ...commonHeaders, ...reply.headers, 'content-length': String(body.length) };
  // The bytes of an unread request body would be parsed as the next request.
  const hasBody = req.headers['content-length'] !== undefined || req.headers['transfer-encoding'] !== undefined;
  const unread = hasBody && !req.complete ? { connection: 'close' } : {};
  res.writeHead(reply.status, { ...headers, ...unread });
  res.end(req.method === 'HEAD' ? undefined : body);
}

const SLOW_READER_TIMEOUT_MS = 20_000;
const RETRY_MS = 2_000;

/** Begins a response of server-sent events. */
export async function beginEvents(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  await writeEvents(response, `retry: ${RETRY_MS}\n\n`);
}

/** Writes events. Resolves when a slow reader has drained; disconnects a reader that takes nothing for too long. */
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

export interface HeldBytesLimits {
  readonly max: number;
  readonly maxPerPeer: number;
}

/**
 * Limits the bytes of responses that are buffered for slow readers. A response that several requests share counts once in
 * total and once per peer. A peer that waits for nothing else may have a response of any size.
 */
export class HeldBytes {
  readonly #limits: HeldBytesLimits;
  readonly #all = new BufferedBytes();
  readonly #peers = new Map<string, BufferedBytes>();

  constructor(limits: HeldBytesLimits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#all.bytes;
  }

  /** Reserves the bytes of a response. Returns the release function; null if the limit is reached. */
  hold(peer: string, answer: Uint8Array): (() => void) | null {
    const ofPeer = this.#peers.get(peer) ?? new BufferedBytes();
    if (!ofPeer.hasRoomFor(answer, this.#limits.maxPerPeer) || !this.#all.hasRoomFor(answer, this.#limits.max)) {
      return null;
    }
    this.#peers.set(peer, ofPeer);
    ofPeer.add(answer);
    this.#all.add(answer);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#all.remove(answer);
      ofPeer.remove(answer);
      if (ofPeer.bytes === 0) this.#peers.delete(peer);
    };
  }
}

class BufferedBytes {
  readonly #holders = new Map<Uint8Array, number>();
  bytes = 0;

  hasRoomFor(answer: Uint8Array, max: number): boolean {
    return this.bytes === 0 || this.#holders.has(answer) || this.bytes + answer.length <= max;
  }

  add(answer: Uint8Array): void {
    if (!this.#holders.has(answer)) this.bytes += answer.length;
    this.#holders.set(answer, (this.#holders.get(answer) ?? 0) + 1);
  }

  remove(answer: Uint8Array): void {
    const left = (this.#holders.get(answer) ?? 1) - 1;
    if (left > 0) this.#holders.set(answer, left);
    else {
      this.#holders.delete(answer);
      this.bytes -= answer.length;
    }
  }
}
