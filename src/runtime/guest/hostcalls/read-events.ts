import { type Failure, fail } from '../../abi/errno.ts';
import { STREAM_WINDOW_BYTES } from '../../port/port.ts';
import { ChatResponse } from '../descriptors/chat-entries.ts';
import type { GuestState } from './guest-state.ts';
import { runWaitingTool } from './tool-callbacks.ts';

/** The host hears of what was read in portions: each message may have to wake it. Half, so that it never runs dry. */
const TOLD_BYTES = STREAM_WINDOW_BYTES / 2;

/** `cchat_read`. What is there already is given at once, without asking anybody. */
export function readEvents(
  guest: GuestState,
  fd: number,
  capacity: number,
): Uint8Array | Failure | Promise<Uint8Array | Failure> {
  const response = guest.fds.get(fd);
  if (!(response instanceof ChatResponse)) return fail.EBADF;
  if (response.events === null) return fail.EINVAL;
  const there = take(guest, response, capacity);
  if (there !== fail.EAGAIN) return there;
  guest.link.drain();
  const arrived = take(guest, response, capacity);
  if (arrived !== fail.EAGAIN) return arrived;
  if (response.callbacks > 0) return fail.EAGAIN; // nothing comes before the callback that asks has ended
  return response.nonblocking && guest.waitingTools.length === 0 ? fail.EAGAIN : wait(guest, fd, response, capacity);
}

/** Callbacks run on top of this wait, one at a time, as they do in `spear_epoll_wait`. */
async function wait(
  guest: GuestState,
  fd: number,
  response: ChatResponse,
  capacity: number,
): Promise<Uint8Array | Failure> {
  for (;;) {
    while (await runWaitingTool(guest)) guest.link.drain();
    if (guest.fds.get(fd) !== response) return fail.EBADF; // closed by a callback
    const arrived = take(guest, response, capacity);
    if (arrived !== fail.EAGAIN || response.nonblocking) return arrived;
    await guest.wait.changed();
  }
}

/** EAGAIN: nothing has come. Empty: nothing will. */
function take(guest: GuestState, response: ChatResponse, capacity: number): Uint8Array | Failure {
  const lines = response.takeEvents(capacity);
  if (!response.pending) {
    const ended = response.body();
    return ended === fail.ECANCELED ? ended : lines;
  }
  if (lines.byteLength === 0) return fail.EAGAIN;
  if (response.readUntold >= TOLD_BYTES) {
    guest.link.tell(response.call, ['read', response.readUntold]);
    response.readUntold = 0;
  }
  return lines;
}
