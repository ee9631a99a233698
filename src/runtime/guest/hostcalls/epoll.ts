import { type Failure, fail } from '../../abi/errno.ts';
import { Epoll, RECORD_BYTES } from '../descriptors/epoll.ts';
import { closeFd, openFd } from './fd.ts';
import { type GuestState, runWaitingTool } from './guest-state.ts';
import type { Family } from './table.ts';

export { RECORD_BYTES } from '../descriptors/epoll.ts';

const ADD = 1;
const MOD = 2;
const DEL = 3;

const records = (epoll: Epoll, capacity: number): Uint8Array => epoll.ready(Math.floor(capacity / RECORD_BYTES));

/** Waits until an entry is ready or the timeout ends; pending callbacks run on top, one at a time. */
async function wait(
  guest: GuestState,
  epfd: number,
  epoll: Epoll,
  capacity: number,
  timeoutMs: number,
): Promise<Uint8Array | Failure> {
  // A poll (timeout 0) runs callbacks but does not wait.
  let isOver = timeoutMs === 0;
  const timeUp = () => {
    isOver = true;
    guest.wait.notify();
  };
  const stop = timeoutMs > 0 ? guest.sources.after(timeoutMs, timeUp) : undefined;
  try {
    for (;;) {
      while (await runWaitingTool(guest)) guest.link.drain();
      if (guest.fds.get(epfd) !== epoll) return fail.EBADF; // closed by a callback: no event can arrive any more
      const found = records(epoll, capacity);
      if (found.byteLength > 0 || isOver) return found;
      await guest.wait.changed();
    }
  } finally {
    stop?.();
  }
}

export const epollCalls: Family<'spear_epoll_create' | 'spear_epoll_ctl' | 'spear_epoll_wait' | 'spear_epoll_close'> = {
  spear_epoll_create: (guest) => openFd(guest, new Epoll()),

  spear_epoll_ctl(guest, epfd, op, fd, events) {
    if (op !== ADD && op !== MOD && op !== DEL) return fail.EINVAL;
    const epoll = guest.fds.get(epfd);
    if (!(epoll instanceof Epoll)) return fail.EBADF;
    if (epfd === fd) return fail.EINVAL;
    const target = guest.fds.get(fd);
    if (!target) return fail.EBADF;
    if (target instanceof Epoll) return fail.EINVAL;
    if (op !== ADD && !epoll.has(fd)) return fail.ENOENT;
    if (op === DEL) epoll.delete(fd);
    else epoll.set(fd, target, events);
    return 0;
  },

  spear_epoll_wait(guest, epfd, capacity, timeoutMs) {
    const epoll = guest.fds.get(epfd);
    if (!(epoll instanceof Epoll)) return fail.EBADF;
    if (capacity < RECORD_BYTES) return fail.ENOSPC;
    guest.link.drain();
    if (guest.waitingTools.length === 0) {
      const found = records(epoll, capacity);
      if (found.byteLength > 0 || timeoutMs === 0) return found;
    }
    return wait(guest, epfd, epoll, capacity, timeoutMs);
  },

  spear_epoll_close: closeFd,
};
