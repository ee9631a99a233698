import { Writable } from 'node:stream';
import { isatty } from 'node:tty';
import type { OutputOption, OutputTarget } from '../../run/guest-output.ts';
import { writeGuestBytes } from './output.ts';

const STDOUT = 1;

/** Guest output on a terminal with prompts: held while a prompt is open; the guest blocks as for any slow reader. */
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
