import { constants, type Http2ServerResponse } from 'node:http2';
import { createContextKey } from '@connectrpc/connect';

const ENVELOPE_BYTES = 5;
/** Of a large message that are handed over at a time: a reader is slow when it takes less than this. */
const PIECE_BYTES = 256 * 1024;

/**
 * Where a streaming method writes messages that are encoded already. Going through the library takes some 100 µs for
 * each message and reader, and encodes it each time; with a hundred readers that is what a change waits for.
 */
export interface StreamSink {
  /** Whose limits the bytes count for. */
  readonly peer: string;
  /** Whether anything was sent: then the library's own messages must not follow. */
  readonly begun: boolean;
  /** Sends the headers: some clients return from the call only when those have come. */
  begin(): void;
  /** Returns at once where the reader keeps up, else a promise for the moment when it has. Rejects if it has gone. */
  write(frame: Uint8Array): Promise<void> | undefined;
  /** Sends a large message piece by piece, no faster than it is read. */
  writeSlowly(frame: Uint8Array): Promise<void>;
}

export const streamSink = createContextKey<StreamSink | null>(null, { description: 'sink of the stream' });

/** A message with the five bytes that gRPC puts before it. */
export function frameOf(message: Uint8Array): Uint8Array {
  const frame = Buffer.allocUnsafeSlow(ENVELOPE_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, ENVELOPE_BYTES);
  return frame;
}

export interface ResponseSinkOptions {
  readonly peer: string;
  /** A reader that takes nothing for so long is cut off. */
  readonly slowReaderMs: number;
  /** Called once, before anything is sent. */
  readonly onBegin: () => void;
}

export function responseSink(res: Http2ServerResponse, options: ResponseSinkOptions): StreamSink {
  const { peer, slowReaderMs, onBegin } = options;
  let begun = false;
  return {
    peer,
    get begun() {
      return begun;
    },
    begin() {
      if (res.headersSent || res.stream.closed) return;
      begun = true;
      onBegin();
      res.writeHead(200, { 'content-type': 'application/grpc+proto' });
    },
    write: (frame) => writeWithin(res, frame, slowReaderMs),
    async writeSlowly(frame) {
      for (let at = 0; at < frame.length; at += PIECE_BYTES) {
        await writeWithin(res, frame.subarray(at, at + PIECE_BYTES), slowReaderMs);
      }
    },
  };
}

export function writeWithin(
  res: Http2ServerResponse,
  bytes: Uint8Array,
  slowReaderMs: number,
): Promise<void> | undefined {
  if (res.stream.closed) return Promise.reject(new Error('the stream was closed'));
  return res.write(bytes) ? undefined : drained(res, slowReaderMs);
}

function drained(res: Http2ServerResponse, slowReaderMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      res.stream.close(constants.NGHTTP2_CANCEL);
      settle();
    }, slowReaderMs);
    const settle = () => {
      clearTimeout(timer);
      res.off('drain', settle);
      res.off('close', settle);
      if (res.stream.closed) reject(new Error('the stream was closed'));
      else resolve();
    };
    res.on('drain', settle);
    res.on('close', settle);
  });
}
