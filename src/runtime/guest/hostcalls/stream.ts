import { MAX_STREAMS } from '../../abi/calls.ts';
import { type Failure, fail } from '../../abi/errno.ts';
import { readWholeFrame } from '../../port/user-stream.ts';
import { UserStream, UserStreamCtl } from '../descriptors/stream-entries.ts';
import { closeFd, openFd, tooManyFds } from './fd.ts';
import type { GuestState } from './guest-state.ts';
import type { Family } from './table.ts';

const DIRECTIONS = [1, 2, 3];

function openStream(guest: GuestState, streamId: number, direction: number): number | Failure {
  const { link, streams } = guest;
  for (const open of streams.open) {
    if (open.streamId === streamId && (open.direction & direction) !== 0) return fail.EEXIST;
  }
  if (guest.fds.full) return tooManyFds(guest);
  if (streams.open.size >= MAX_STREAMS) {
    guest.notice(`the guest has ${MAX_STREAMS} user streams open: EMFILE`);
    return fail.EMFILE;
  }
  const stream: UserStream = new UserStream(streamId, direction, () => {
    streams.open.delete(stream);
    link.unsubscribe(stream.call, ['stream_close']);
  });
  stream.call = link.subscribe(['stream_open', streamId, direction], (reply) => {
    if (reply[0] === 'stream_frame') stream.arrived(reply[1]);
    else if (reply[0] === 'stream_room') stream.gaveRoom(reply[1]);
    else if (reply[0] === 'stream_end') stream.ended();
    else if (reply[0] === 'stream_gone') stream.gone();
  });
  streams.open.add(stream);
  streams.rest?.begin();
  return openFd(guest, stream);
}

function openCtl(guest: GuestState): number | Failure {
  const { link, streams } = guest;
  if (streams.ctl !== null) return fail.EEXIST;
  if (guest.fds.full) return tooManyFds(guest);
  const ctl: UserStreamCtl = new UserStreamCtl(() => {
    streams.ctl = null;
    link.unsubscribe(ctl.call, ['stream_close']);
  });
  ctl.call = link.subscribe(['stream_watch'], (reply) => {
    if (reply[0] !== 'stream_event' || ctl.happened(reply[1], reply[2])) return;
    guest.notice('the guest does not read the events of its user streams: the oldest are dropped');
  });
  streams.ctl = ctl;
  streams.rest?.begin();
  return openFd(guest, ctl);
}

export const streamCalls: Family<
  | 'user_stream_open'
  | 'user_stream_read'
  | 'user_stream_write'
  | 'user_stream_close'
  | 'user_stream_ctl_open'
  | 'user_stream_ctl_read'
> = {
  user_stream_open(guest, streamId, direction) {
    if (!DIRECTIONS.includes(direction)) return fail.EINVAL;
    return guest.streams.areServed ? openStream(guest, streamId >>> 0, direction) : fail.ENOTCONN;
  },

  user_stream_read(guest, fd, capacity) {
    const stream = guest.fds.get(fd);
    if (!(stream instanceof UserStream) || !stream.reads) return fail.EBADF;
    let frame = stream.next();
    if (frame === fail.EAGAIN) {
      guest.link.drain();
      frame = stream.next();
    }
    if (frame instanceof Uint8Array && frame.byteLength <= capacity) {
      const taken = stream.take();
      if (taken > 0) guest.link.send(stream.call, ['stream_taken', taken]);
    }
    return frame;
  },

  user_stream_write(guest, fd, frame) {
    const stream = guest.fds.get(fd);
    if (!(stream instanceof UserStream) || !stream.writes) return fail.EBADF;
    if (frame === undefined) return fail.EMSGSIZE;
    const head = readWholeFrame(frame);
    if (typeof head === 'string' || head.streamId !== stream.streamId) return fail.EINVAL;
    let refused = stream.reserve(frame.byteLength);
    if (refused === fail.EAGAIN) {
      guest.link.drain();
      refused = stream.reserve(frame.byteLength);
    }
    if (refused !== null) return refused;
    const copy = new Uint8Array(frame); // a copy: this is a view of guest memory
    guest.link.send(stream.call, ['stream_frame', copy], [copy.buffer]);
    return 0;
  },

  user_stream_close: closeFd,

  user_stream_ctl_open: (guest) => (guest.streams.areServed ? openCtl(guest) : fail.ENOTCONN),

  user_stream_ctl_read(guest, fd, capacity) {
    const ctl = guest.fds.get(fd);
    if (!(ctl instanceof UserStreamCtl)) return fail.EBADF;
    let event = ctl.next();
    if (event === fail.EAGAIN) {
      guest.link.drain();
      event = ctl.next();
    }
    if (event instanceof Uint8Array && event.byteLength <= capacity) ctl.take();
    return event;
  },
};

const noSys = () => fail.ENOSYS;

export const audioCalls: Family<
  | 'rtasr_create'
  | 'rtasr_ctl'
  | 'rtasr_write'
  | 'rtasr_read'
  | 'rtasr_close'
  | 'mic_create'
  | 'mic_ctl'
  | 'mic_write'
  | 'mic_read'
  | 'mic_close'
> = {
  rtasr_create: noSys,
  rtasr_ctl: noSys,
  rtasr_write: noSys,
  rtasr_read: noSys,
  rtasr_close: noSys,
  mic_create: noSys,
  mic_ctl: noSys,
  mic_write: noSys,
  mic_read: noSys,
  mic_close: noSys,
};
