import { constants, type Http2ServerResponse } from 'node:http2';
import { createContextKey } from '@connectrpc/connect';

/** How long a reader may leave a full buffer unread before its stream is cut. */
const SLOW_READER_TIMEOUT_MS = 60_000;
const ENVELOPE_BYTES = 5;

/**
 * Where a streaming method writes messages that are encoded already. Going through the library takes some 100 µs for
 * each message and reader, and encodes it each time; with a hundred readers that is what a change waits for.
 */
export interface StreamSink {
  /** Sends the headers: some clients return from the call only when those have come. */
  begin(): void;
  /** Returns at once where the reader keeps up, else a promise for the moment when it has. Rejects if it has gone. */
  write(frame: Uint8Array): Promise<void> | undefined;
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

/** `onBegin` is called once, before anything is sent. */
export function responseSink(res: Http2ServerResponse, onBegin: () => void): StreamSink {
  return {
    begin() {
      if (res.headersSent || res.stream.closed) return;
      onBegin();
      res.writeHead(200, { 'content-type': 'application/grpc+proto' });
    },
    write: (frame) => writeWithin(res, frame),
  };
}

export function writeWithin(res: Http2ServerResponse, bytes: Uint8Array): Promise<void> | undefined {
  if (res.stream.closed) return Promise.reject(new Error('the stream was closed'));
  return res.write(bytes) ? undefined : drained(res);
}

function drained(res: Http2ServerResponse): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      res.stream.close(constants.NGHTTP2_CANCEL);
      settle();
    }, SLOW_READER_TIMEOUT_MS);
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
