import type { HostReply } from '../../runtime/port/port.ts';
import { STREAM_CONNECTED } from '../../runtime/port/stream-window.ts';

/** What a guest was told about one of its streams before its run was given up. */
export interface EarlierStream {
  /** It had a client, which is not there any more. */
  readonly hadClient: boolean;
  /** Bytes of frames that were handed to the guest. */
  readonly given: number;
  /** Bytes that a client took of what the guest wrote. */
  readonly taken: number;
  /** The guest knows that nothing more comes, and that nobody takes anything. */
  readonly isEnded: boolean;
  readonly isGone: boolean;
}

export function earlierStream(told: readonly HostReply[]): EarlierStream {
  let [given, taken] = [0, 0];
  for (const reply of told) {
    if (reply[0] === 'stream_frame') given += reply[1].byteLength;
    if (reply[0] === 'stream_room') taken += reply[1];
  }
  const was = (kind: HostReply[0]) => told.some((reply) => reply[0] === kind);
  return { hadClient: told.length > 0, given, taken, isEnded: was('stream_end'), isGone: was('stream_gone') };
}

/** The streams whose client the guest believes to be there. */
export function connectedEarlier(told: readonly HostReply[]): ReadonlySet<number> {
  const connected = new Set<number>();
  for (const reply of told) {
    if (reply[0] !== 'stream_event') continue;
    if (reply[2] === STREAM_CONNECTED) connected.add(reply[1]);
    else connected.delete(reply[1]);
  }
  return connected;
}
