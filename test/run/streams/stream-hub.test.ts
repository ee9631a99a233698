import { describe, expect, it } from 'vitest';
import { StreamHub } from '../../../src/run/streams/stream-hub.ts';
import type { HostReply } from '../../../src/runtime/port/port.ts';
import { connectFakeClient, FakeClient, frame } from '../../support/stream-client.ts';

const KIB_128 = 128 * 1024;

/** A hub and its replies to the guest. */
function openHub(earlier: Readonly<Record<number, readonly HostReply[]>> | null = null) {
  const replies: [call: number, ...HostReply][] = [];
  const hub = new StreamHub(
    (call, reply) => replies.push([call, ...reply]),
    earlier && ((call) => earlier[call] ?? []),
  );
  const say = (call: number, ...request: unknown[]) =>
    hub.receive([0, call, 0, ...request] as unknown as Parameters<StreamHub['receive']>[0]);
  const kinds = () => replies.map(([call, kind]) => `${call} ${kind}`);
  return { hub, replies, say, kinds };
}

describe('the other end of a guest’s streams', () => {
  it('keeps what comes before the guest opens the stream [user-stream.order]', () => {
    const { hub, replies, say } = openHub();
    const client = connectFakeClient(hub);
    client.session.receive(frame(5, 'one'));
    client.session.receive(frame(5, 'two'));
    expect(replies).toEqual([]);
    say(1, 'stream_open', 5, 3);
    expect(replies).toEqual([
      [1, 'stream_frame', frame(5, 'one')],
      [1, 'stream_frame', frame(5, 'two')],
    ]);
  });

  it('keeps what the guest writes before there is a client [user-stream.order]', () => {
    const { hub, replies, say } = openHub();
    say(1, 'stream_open', 5, 2);
    say(1, 'stream_frame', frame(5, 'early'));
    const client = connectFakeClient(hub);
    expect(client.frames).toEqual([frame(5, 'early')]);
    expect(replies).toEqual([[1, 'stream_room', 37]]);
  });

  it('has one client at a time [user-stream.client]', () => {
    const { hub } = openHub();
    const first = connectFakeClient(hub);
    expect(hub.isTaken).toBe(true);
    expect(hub.connect(new FakeClient())).toBeNull();
    first.session.gone();
    expect(hub.connect(new FakeClient())).not.toBeNull();
  });

  it('does not give the streams of a departed client to the next one [user-stream.client]', () => {
    const { hub, say, kinds } = openHub();
    say(1, 'stream_open', 5, 3);
    connectFakeClient(hub).session.gone();
    expect(kinds()).toEqual(['1 stream_gone', '1 stream_end']);
    const second = connectFakeClient(hub);
    second.session.receive(frame(5, 'for the next'));
    say(1, 'stream_frame', frame(5, 'for the first'));
    expect(second.frames).toEqual([]);
    say(1, 'stream_close');
    say(2, 'stream_open', 5, 3);
    expect(kinds().slice(-1)).toEqual(['2 stream_frame']);
  });

  it('a client that sends nothing more still listens [user-stream.client]', () => {
    const { hub, say, kinds } = openHub();
    say(1, 'stream_open', 5, 3);
    const client = connectFakeClient(hub);
    client.session.receive(frame(5, 'last'));
    client.session.ended();
    say(1, 'stream_frame', frame(5, 'answer'));
    expect(client.frames).toEqual([frame(5, 'answer')]);
    expect(kinds()).toEqual(['1 stream_frame', '1 stream_end', '1 stream_room']);
  });

  it('reports the end only after every frame was read [user-stream.order]', () => {
    const { hub, say, kinds } = openHub();
    say(1, 'stream_open', 5, 1);
    const client = connectFakeClient(hub);
    const large = frame(5, Buffer.alloc(KIB_128));
    for (let sent = 0; sent < 5; sent++) client.session.receive(large);
    client.session.gone();
    expect(kinds()).toEqual(['1 stream_frame', '1 stream_frame', '1 stream_frame', '1 stream_gone']);
    say(1, 'stream_taken', 2 * large.byteLength);
    expect(kinds().slice(4)).toEqual(['1 stream_frame', '1 stream_frame', '1 stream_end']);
  });

  it('stops a client that is faster than the guest, and lets it go on [user-stream.bounded]', () => {
    const { hub, say } = openHub();
    const client = connectFakeClient(hub);
    const large = frame(5, Buffer.alloc(KIB_128));
    let sent = 0;
    while (!client.isPaused) {
      client.session.receive(large);
      sent += 1;
    }
    expect(sent).toBe(16);
    say(1, 'stream_open', 5, 1);
    for (let read = 0; read < 6; read += 3) say(1, 'stream_taken', 3 * large.byteLength);
    expect(client.isPaused).toBe(false);
    expect(client.problem).toBeUndefined();
  });

  it('ends a client that does not stop, names 65 streams or sends what is no frame [user-stream.malformed]', () => {
    const stubborn = connectFakeClient(openHub().hub);
    while (stubborn.problem === undefined) stubborn.session.receive(frame(5, Buffer.alloc(KIB_128)));
    expect(stubborn.problem).toBe('the client sent more than the stream window holds before the guest read it');

    const many = connectFakeClient(openHub().hub);
    for (let streamId = 0; streamId < 65; streamId++) many.session.receive(frame(streamId, ''));
    expect(many.problem).toBe('a client may use at most 64 streams; stream 64 exceeds that');

    const { hub, say, kinds } = openHub();
    say(1, 'stream_open', 5, 3);
    const confused = connectFakeClient(hub);
    confused.session.receive(Buffer.from('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n'));
    expect(confused.problem).toBe('a frame does not begin with "SPST"');
    expect(kinds()).toEqual(['1 stream_gone', '1 stream_end']);
  });

  it('refuses a guest thread that breaks the rules', () => {
    const { hub, say } = openHub();
    connectFakeClient(hub).holds = true;
    say(1, 'stream_open', 5, 3);
    expect(() => say(1, 'stream_open', 6, 3)).toThrow('duplicate call id');
    expect(() => say(1, 'stream_taken', 1)).toThrow('more bytes acknowledged than were unread');
    const large = frame(5, Buffer.alloc(KIB_128));
    expect(() => {
      for (let sent = 0; sent < 5; sent++) say(1, 'stream_frame', large);
    }).toThrow('more frame bytes than the stream window holds');
  });

  it('sends what a guest wrote before it ended, and then lets the client go [user-stream.flush]', async () => {
    const { hub, say } = openHub();
    const client = connectFakeClient(hub);
    client.holds = true;
    say(1, 'stream_open', 5, 2);
    say(1, 'stream_frame', frame(5, 'last words'));
    const closing = hub.close();
    expect(client.problem).toBeUndefined();
    for (const taken of client.held) taken();
    await closing;
    expect(client.problem).toBeNull();
    expect(hub.isTaken).toBe(true);
  });
});

describe('the other end of the streams of a run that was taken up again', () => {
  const CONNECTED = 1;
  const CLOSED = 2;

  it('has lost the client of the earlier attempt, and says so once the guest is new [user-stream.resume]', () => {
    const { hub, replies, say } = openHub({
      1: [['stream_event', 5, CONNECTED]],
      2: [['stream_frame', frame(5, 'heard')]],
    });
    say(1, 'stream_watch');
    say(2, 'stream_open', 5, 3);
    say(2, 'stream_frame', frame(5, 'for the first'));
    hub.goLive();
    expect(replies).toEqual([
      [2, 'stream_room', 45],
      [1, 'stream_event', 5, CLOSED],
      [2, 'stream_gone'],
      [2, 'stream_end'],
    ]);
    expect(connectFakeClient(hub).frames).toEqual([]);
  });

  it('sends frames that no client received to the next client, and repeats no received frame [user-stream.resume]', () => {
    const { hub, replies, say } = openHub({ 1: [['stream_room', 37], ['stream_gone'], ['stream_end']] });
    say(1, 'stream_open', 5, 2);
    say(1, 'stream_frame', frame(5, 'taken'));
    say(1, 'stream_close');
    say(2, 'stream_open', 5, 2);
    say(2, 'stream_frame', frame(5, 'early'));
    hub.goLive();
    expect(replies).toEqual([]);
    expect(connectFakeClient(hub).frames).toEqual([frame(5, 'early')]);
  });

  it('counts what the guest read before, also of a stream whose opening was the last that it did [user-stream.resume]', () => {
    const large = frame(5, Buffer.alloc(KIB_128));
    const { hub, say, kinds } = openHub({ 1: Array.from({ length: 2 }, () => ['stream_frame', large] as const) });
    hub.goLive();
    say(1, 'stream_open', 5, 1);
    expect(kinds()).toEqual(['1 stream_gone', '1 stream_end']);
    expect(() => say(1, 'stream_taken', 2 * large.byteLength)).not.toThrow();
    expect(() => say(1, 'stream_taken', 1)).toThrow('more bytes acknowledged than were unread');
  });
});
