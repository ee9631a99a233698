import type { Readable, Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { FrameSplitter } from './frame-splitter.ts';
import type { ClientSession, StreamEnd } from './stream-client.ts';

/** Ends a client; over bytes there is no way to tell it what it did wrong, so somebody else is told. */
export type EndClient = (problem: string | null) => void;

/**
 * A client that sends frames one after the other over a pair of byte streams. False: the hub has one already. When its
 * input ends it may still listen, as a program does whose input was a file; it is gone when nothing more can be written.
 * `hasLeft` says whether that is so without a write. @default false: there is no other client that needs to know
 */
export function connectByteClient(
  hub: StreamEnd,
  input: Readable,
  output: Writable,
  end: EndClient,
  hasLeft: () => boolean = () => false,
): boolean {
  const splitter = new FrameSplitter();
  let isLeaving = false;
  const session: ClientSession | null = hub.connect({
    send: (frame, taken) => void output.write(frame, () => taken()),
    pause() {
      if (!isLeaving) input.pause();
    },
    resume: () => void input.resume(),
    async check(signal) {
      if (!hasLeft()) return;
      isLeaving = true; // what is left to read is bounded by the buffer of the socket
      input.resume();
      if (!input.readableEnded) await finished(input, { writable: false, signal });
      end(null);
      session?.gone();
    },
    close: end,
  });
  if (session === null) return false;
  const fault = (problem: string) => {
    end(problem);
    session.gone();
  };
  input.on('data', (chunk: Uint8Array) => {
    for (const frame of splitter.split(chunk)) {
      if (typeof frame === 'string') fault(frame);
      else session.receive(frame);
    }
  });
  input.once('end', () => {
    if (splitter.isInside) fault('the input ended in the middle of a frame');
    else session.ended();
  });
  input.once('close', () => session.ended());
  input.once('error', () => session.gone());
  for (const event of ['close', 'error', 'finish']) output.once(event, () => session.gone());
  return true;
}
