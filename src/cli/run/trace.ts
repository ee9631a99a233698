import { closeSync, openSync, writeSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import { UsageError } from '../usage-error.ts';

/** What one run adds to its trace at most: a loop that was left alone must not fill the disk. */
export const MAX_TRACE_BYTES = 256 * 1024 * 1024;
const OWNER_ONLY = 0o600;

export interface RunTrace {
  readonly write: (line: string) => void;
  close(): void;
}

/** `--trace FILE`. Whatever happens to the file after it was opened, the run goes on; it is said once. */
export function openTrace(file: string, say: (text: string) => void, maxBytes: number = MAX_TRACE_BYTES): RunTrace {
  let fd: number | null;
  try {
    fd = openSync(file, 'a', OWNER_ONLY);
  } catch (error) {
    throw new UsageError(`--trace ${file}: it cannot be written (${errorCode(error)})`);
  }
  let leftBytes = maxBytes;
  const close = () => {
    if (fd !== null) closeSync(fd);
    fd = null;
  };
  const stop = (why: string) => {
    close();
    say(`--trace ${file}: lines are lost from here on, ${why}`);
  };
  const write = (line: string) => {
    if (fd === null) return;
    const bytes = Buffer.from(`${line}\n`);
    if (bytes.byteLength > leftBytes) return stop(`it has the ${maxBytes} bytes that a run may write`);
    leftBytes -= bytes.byteLength;
    try {
      // A regular file takes all of it unless the disk is full, and then the next attempt says so.
      for (let at = 0; at < bytes.byteLength; ) at += writeSync(fd, bytes, at);
    } catch (error) {
      stop(`writing failed (${errorCode(error)})`);
    }
  };
  return { write, close };
}
