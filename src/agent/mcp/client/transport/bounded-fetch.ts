import { setImmediate } from 'node:timers/promises';
import type { FetchLike } from '@modelcontextprotocol/client';
import { EventStreamFilter } from './event-stream.ts';
import { HEAD_BYTES, type OversizedLine, TAIL_BYTES } from './line-framer.ts';

/** Names the JSON-RPC request that an HTTP request carries; set by our transport, taken off before anything is sent. */
export const REQUEST_HEADER = 'x-spear-request';

export interface BodyWatch {
  readonly maxMessageBytes: number;
  /** An answer beyond the bound arrived. `request` is null on a stream that belongs to no single request. */
  tooLarge(request: string | null, answer: OversizedLine): void;
  /** The connection broke under a body, or could not be made for a stream that belongs to no request. */
  broken(request: string | null): void;
}

/** The text of an error page is cut here; nobody reads more of it. */
const ERROR_BODY_BYTES = 16 * 1024;

/** A server that sends faster than it is read keeps everything else waiting no longer than this, and a part of its body. */
const TURN_MS = 10;
const PART_BYTES = 8 * 1024;

/** A fetch that never hands on more than one message may have, and tells when a body ends before its time. */
export function boundFetch(fetch: FetchLike, watch: BodyWatch): FetchLike {
  return async (url, init) => {
    const headers = new Headers(init?.headers);
    const request = headers.get(REQUEST_HEADER);
    headers.delete(REQUEST_HEADER);
    const aborted = () => init?.signal?.aborted === true;
    let response: Response;
    try {
      response = await fetch(url, { ...init, headers });
    } catch (error) {
      if (init?.method === 'GET' && !aborted()) watch.broken(null);
      throw error;
    }
    // Redirects stay as they are: the library looks at where they come from.
    if (response.body === null || (response.status >= 300 && response.status < 400)) return response;
    const filter = !response.ok
      ? cutBody(ERROR_BODY_BYTES)
      : isEventStream(response)
        ? eventStreamBody(request, watch)
        : wholeBody(request, watch);
    const body = filtered(response.body, filter, () => {
      if (!aborted()) watch.broken(request);
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
  let turnBegan = performance.now();
  return new ReadableStream({
    async pull(controller) {
      let passed = false;
      while (!passed) {
        // What is there already is read without a turn of the event loop, so no deadline would ever come.
        if (performance.now() - turnBegan > TURN_MS) {
          await setImmediate();
          turnBegan = performance.now();
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

function wholeBody(request: string | null, watch: BodyWatch): ChunkFilter {
  let head = Buffer.alloc(0);
  let bytes = 0;
  return (chunk, pass) => {
    if (head.length < HEAD_BYTES) head = Buffer.concat([head, chunk]).subarray(0, HEAD_BYTES);
    bytes += chunk.length;
    if (bytes <= watch.maxMessageBytes) {
      pass(chunk);
      return;
    }
    watch.tooLarge(request, { head, tail: Buffer.from(chunk.subarray(-TAIL_BYTES)), bytes });
    throw new RangeError(`the response has more than ${watch.maxMessageBytes} bytes`);
  };
}

function eventStreamBody(request: string | null, watch: BodyWatch): ChunkFilter {
  let pass: (bytes: Uint8Array) => void = () => {};
  const filter = new EventStreamFilter({
    maxMessageBytes: watch.maxMessageBytes,
    pass: (bytes) => pass(bytes),
    oversized: (line) => watch.tooLarge(request, line),
  });
  return (chunk, onward) => {
    pass = onward;
    filter.push(chunk);
  };
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') ?? false;
}
