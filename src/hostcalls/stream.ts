import { fail } from '../abi/errno.ts';
import { closeFd } from './fd.ts';
import type { Family } from './table.ts';

const DIRECTIONS = [1, 2, 3];

/** No run has a client side yet, so there is nothing to open; guests that use streams link and are told so. */
export const streamCalls: Family<
  | 'user_stream_open'
  | 'user_stream_read'
  | 'user_stream_write'
  | 'user_stream_close'
  | 'user_stream_ctl_open'
  | 'user_stream_ctl_read'
> = {
  user_stream_open: (_guest, _streamId, direction) => (DIRECTIONS.includes(direction) ? fail.ENOTCONN : fail.EINVAL),
  user_stream_read: () => fail.ENOTCONN,
  user_stream_write: () => fail.ENOTCONN,
  user_stream_close: closeFd,
  user_stream_ctl_open: () => fail.ENOTCONN,
  user_stream_ctl_read: () => fail.ENOTCONN,
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
