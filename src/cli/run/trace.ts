import { closeSync, openSync, writeSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { UsageError } from '../exit-codes.ts';

/** Bytes that one run may append: an unattended loop must not fill the disk. */
export const MAX_TRACE_BYTES = 256 * 1024 * 1024;
const OWNER_ONLY = 0o600;

export interface RunTrace {
  readonly write: (line: string) => void;
  close(): void;
}

/** `--trace FILE`. A write failure stops the trace with one message, not the run. */
export function openTrace(file: string, say: (text: string) => void, maxBytes: number = MAX_TRACE_BYTES): RunTrace {
  let fd: number | null;
  try {
    fd = openSync(file, 'a', OWNER_ONLY);
  } catch (error) {
    throw new UsageError(`--trace ${file}: cannot be written (${errorCode(error)})`);
  }
  let leftBytes = maxBytes;
  const close = () => {
    if (fd !== null) closeSync(fd);
    fd = null;
  };
  const stop = (why: string) => {
    close();
    say(`--trace ${file}: stopped, ${why}`);
  };
  const write = (line: string) => {
    if (fd === null) return;
    const bytes = Buffer.from(`${line}\n`);
    if (bytes.byteLength > leftBytes) return stop(`the limit of ${maxBytes} bytes per run is reached`);
    leftBytes -= bytes.byteLength;
    try {
      // A short write means a full disk; the next write then fails.
      for (let at = 0; at < bytes.byteLength; ) at += writeSync(fd, bytes, at);
    } catch (error) {
      stop(`writing failed (${errorCode(error)})`);
    }
  };
  return { write, close };
}
