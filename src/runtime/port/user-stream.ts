import { FRAME_BYTES } from '../abi/calls.ts';

// Frames of user streams and their flow control. A frame, little-endian:
//   "SPST", u16 version, u16 header length, u16 type, u16 flags, u32 stream id, u64 sequence, u32 meta length,
//   u32 data length, whatever else the header has, meta, data
// Type, flags and sequence are end to end: nothing in between reads them.

export const FRAME_HEADER_BYTES = 32;
const MAGIC = 0x54535053; // "SPST" read as a little-endian number
const VERSION = 1;

export interface FrameHead {
  readonly streamId: number;
  /** Length of the whole frame. */
  readonly length: number;
}

/** Reads a frame header; a string says what is wrong with it. Precondition: at least FRAME_HEADER_BYTES. */
export function readFrameHead(bytes: Uint8Array): FrameHead | string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0, true) !== MAGIC) return 'a frame does not begin with "SPST"';
  const version = view.getUint16(4, true);
  if (version !== VERSION) return `a frame has version ${version}, expected ${VERSION}`;
  const headerBytes = view.getUint16(6, true);
  if (headerBytes < FRAME_HEADER_BYTES) {
    return `a frame's header has ${headerBytes} bytes, expected at least ${FRAME_HEADER_BYTES}`;
  }
  const length = headerBytes + view.getUint32(24, true) + view.getUint32(28, true);
  if (length > FRAME_BYTES) return `a frame has ${length} bytes; the limit is ${FRAME_BYTES}`;
  return { streamId: view.getUint32(12, true), length };
}

/** Reads exactly one whole frame; a string says what is wrong with it. */
export function readWholeFrame(bytes: Uint8Array): FrameHead | string {
  if (bytes.byteLength < FRAME_HEADER_BYTES) {
    return `a frame has ${bytes.byteLength} bytes, fewer than its header (${FRAME_HEADER_BYTES})`;
  }
  const head = readFrameHead(bytes);
  if (typeof head === 'string' || head.length === bytes.byteLength) return head;
  return `a frame of ${bytes.byteLength} bytes declares a length of ${head.length}`;
}

/** Bytes of one stream in flight between the threads, each way: two frames, so that half can be acknowledged at a time. */
export const STREAM_WINDOW_BYTES = 2 * FRAME_BYTES;

/** Taken bytes are acknowledged in this amount: smaller ones would wake the other thread too often. */
export const STREAM_GIVE_BACK_BYTES = STREAM_WINDOW_BYTES / 2;

export const STREAM_CONNECTED = 1;
export const STREAM_CLOSED = 2;
export type StreamEventKind = typeof STREAM_CONNECTED | typeof STREAM_CLOSED;
