import { FRAME_BYTES } from '../abi/calls.ts';

// How much of one stream may be on its way between the threads, each way. Two frames of the largest size fit, so that
// half of it can be given back at a time.

export const STREAM_WINDOW_BYTES = 2 * FRAME_BYTES;

/** Told to the other side when so much was taken: less would wake its thread for nothing. */
export const STREAM_GIVE_BACK_BYTES = STREAM_WINDOW_BYTES / 2;

export const STREAM_CONNECTED = 1;
export const STREAM_CLOSED = 2;
export type StreamEventKind = typeof STREAM_CONNECTED | typeof STREAM_CLOSED;
