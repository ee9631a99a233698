import { setImmediate } from 'node:timers/promises';
import type { FetchLike } from '@modelcontextprotocol/client';
import { EventStreamFilter } from './event-stream.ts';
import { HEAD_BYTES, type OversizedLine, TAIL_BYTES } from './line-framer.ts';

/** Header with the JSON-RPC id of a request: set by our transport, removed before the request is sent. */
export const REQUEST_HEADER = 'x-spear-request';

export interface BodyEvents {
  readonly maxMessageBytes: number;
  /** A message exceeded the limit. `request` is null on a stream that belongs to no single request. */
  tooLarge(request: string | null, answer: OversizedLine): void;
  /** The connection broke during a body, or failed for a stream that belongs to no request. */
  broken(request: string | null): void;
}

/** Error pages are cut at this size. */
const ERROR_BODY_BYTES = 16 * 1024;

/** Yield interval: a fast server blocks the event loop no longer than this plus one part of its body. */
const YIELD_MS = 10;
const PART_BYTES = 8 * 1024;

/** Wraps `fetch`: bounds the size of each message, and reports bodies that end early. */
export function boundFetch(fetch: FetchLike, events: BodyEvents): FetchLike {
  return async (url, init) => {
    const headers = new Headers(init?.headers);
    const request = headers.get(REQUEST_HEADER);
    headers.delete(REQUEST_HEADER);
    const aborted = () => init?.signal?.aborted === true;
    let response: Response;
    try {
      response = await fetch(url, { ...init, headers });
    } catch (error) {
      if (init?.method === 'GET' && !aborted()) events.broken(null);
      throw error;
    }
    // The library checks the origin of redirects, so they are not wrapped.
    if (response.body === null || (response.status >= 300 && response.status < 400)) return response;
    const filter = !response.ok
      ? cutBody(ERROR_BODY_BYTES)
      : isEventStream(response)
        ? eventStreamBody(request, events)
        : wholeBody(request, events);
    const body = filtered(response.body, filter, () => {
      if (!aborted()) events.broken(request);
    });
    return new Response(body, response);
  };
}

type ChunkFilter = (chunk: Uint8Array, pass: (bytes: Uint8Array) => void) => void;

function filtered(
  body: ReadableStream<Uint8Array>,
  filter: ChunkFilter,
  onBroken: () => void,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let unread: Uint8Array = new Uint8Array(0);
  let lastYield = performance.now();
  return new ReadableStream({
    async pull(controller) {
      let passed = false;
      while (!passed) {
        // Buffered data is read without returning to the event loop, which would delay every deadline.
        if (performance.now() - lastYield > YIELD_MS) {
          await setImmediate();
          lastYield = performance.now();
        }
        if (unread.length === 0) {
          let read: Awaited<ReturnType<typeof reader.read>>;
          try {
            read = await reader.read();
          } catch (error) {
            onBroken();
            throw error;
          }
          if (read.done) {
            controller.close();
            return;
          }
          unread = read.value;
        }
        const part = unread.subarray(0, PART_BYTES);
        unread = unread.subarray(PART_BYTES);
        filter(part, (bytes) => {
          passed = true;
          controller.enqueue(bytes);
        });
      }
    },
    async cancel(reason) {
      await reader.cancel(reason);
    },
  });
}

function cutBody(maxBytes: number): ChunkFilter {
  let left = maxBytes;
  return (chunk, pass) => {
    pass(chunk.subarray(0, left));
    left = Math.max(0, left - chunk.length);
  };
}

function wholeBody(request: string | null, events: BodyEvents): ChunkFilter {
  let head = Buffer.alloc(0);
  let bytes = 0;
  return (chunk, pass) => {
    if (head.length < HEAD_BYTES) head = Buffer.concat([head, chunk]).subarray(0, HEAD_BYTES);
    bytes += chunk.length;
    if (bytes <= events.maxMessageBytes) {
      pass(chunk);
      return;
    }
    events.tooLarge(request, { head, tail: Buffer.from(chunk.subarray(-TAIL_BYTES)), bytes });
    throw new RangeError(`the response has more than ${events.maxMessageBytes} bytes`);
  };
}

function eventStreamBody(request: string | null, events: BodyEvents): ChunkFilter {
  let pass: (bytes: Uint8Array) => void = () => {};
  const filter = new EventStreamFilter({
    maxMessageBytes: events.maxMessageBytes,
    pass: (bytes) => pass(bytes),
    oversized: (line) => events.tooLarge(request, line),
  });
  return (chunk, passOn) => {
    pass = passOn;
    filter.push(chunk);
  };
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') ?? false;
}
