import { expect } from 'vitest';
import type { ClientSession, StreamClient, StreamEnd } from '../../src/run/streams/stream-client.ts';
import { RECORD_BYTES } from '../../src/runtime/guest/hostcalls/epoll.ts';
import type { TestGuest } from './test-guest.ts';

/** A frame, written here by hand: byte by byte as the page of the protocol says. */
export function frame(streamId: number, data: string | Uint8Array, sequence = 0, meta = ''): Uint8Array {
  const metaBytes = Buffer.from(meta);
  const dataBytes = Buffer.from(data);
  const head = Buffer.alloc(32);
  head.write('SPST', 0, 'latin1');
  head.writeUInt16LE(1, 4);
  head.writeUInt16LE(32, 6);
  head.writeUInt16LE(1, 8);
  head.writeUInt32LE(streamId, 12);
  head.writeBigUInt64LE(BigInt(sequence), 16);
  head.writeUInt32LE(metaBytes.byteLength, 24);
  head.writeUInt32LE(dataBytes.byteLength, 28);
  return new Uint8Array(Buffer.concat([head, metaBytes, dataBytes]));
}

export const frameData = (bytes: Uint8Array): string => {
  const view = Buffer.from(bytes);
  return view.subarray(view.readUInt16LE(6) + view.readUInt32LE(24)).toString();
};

/** Not a transport: it takes what the hub sends, at once or when it is let. */
export class FakeClient implements StreamClient {
  readonly frames: Uint8Array[] = [];
  readonly held: (() => void)[] = [];
  holds = false;
  isPaused = false;
  /** Undefined: it was not closed. */
  problem: string | null | undefined;
  session!: ClientSession;

  send(sent: Uint8Array, taken: () => void): void {
    this.frames.push(sent);
    if (this.holds) this.held.push(taken);
    else taken();
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  async check(): Promise<void> {}

  close(problem: string | null): void {
    this.problem = problem;
  }
}

export function connectFakeClient(hub: StreamEnd): FakeClient {
  const client = new FakeClient();
  const session = hub.connect(client);
  if (session === null) throw new Error('the hub has a client already');
  client.session = session;
  return client;
}

/** Waits in epoll until the descriptor is ready; gives its events. */
export async function ready(guest: TestGuest, fd: number, wanted: number): Promise<number> {
  const epoll = await guest.call('spear_epoll_create');
  await guest.call('spear_epoll_ctl', epoll, 1, fd, wanted);
  const out = guest.heap.out(RECORD_BYTES);
  expect(await guest.call('spear_epoll_wait', epoll, ...out.args, 5_000)).toBe(1);
  await guest.call('spear_epoll_close', epoll);
  return Buffer.from(out.bytes()).readInt32LE(4);
}

export const readable = (guest: TestGuest, fd: number) => ready(guest, fd, 1);

export async function readFrame(guest: TestGuest, fd: number): Promise<Buffer | number> {
  const out = guest.heap.out(300_000);
  const length = await guest.call('user_stream_read', fd, ...out.args);
  return length < 0 ? length : Buffer.from(out.bytes());
}

export async function readEvent(guest: TestGuest, ctl: number): Promise<[streamId: number, kind: number]> {
  const out = guest.heap.out(8);
  expect(await guest.call('user_stream_ctl_read', ctl, ...out.args)).toBe(8);
  const event = Buffer.from(out.bytes());
  return [event.readUInt32LE(0), event.readUInt32LE(4)];
}
