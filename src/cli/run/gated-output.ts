import { Writable } from 'node:stream';
import { isatty } from 'node:tty';
import type { OutputOption, OutputTarget } from '../../run/guest-output.ts';
import { writeGuestBytes } from './output.ts';

const STDOUT = 1;

/**
 * The guest's output where a question may be asked on the same terminal: it goes through the host, which lets nothing
 * through while a question is open. The guest waits meanwhile, as it does for any slow reader.
 */
export function gatedOutput(fds: { readonly stdout: number; readonly stderr: number }): OutputOption {
  return { stdout: gated(fds.stdout), stderr: gated(fds.stderr) };
}

function gated(fd: number): OutputTarget {
  if (!isatty(fd)) return fd;
  const stream = fd === STDOUT ? 'stdout' : 'stderr';
  return new Writable({
    highWaterMark: 1,
    write: (bytes: Uint8Array, _encoding, done) => writeGuestBytes(stream, bytes, done),
  });
}
