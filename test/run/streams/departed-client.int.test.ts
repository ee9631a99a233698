import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type HttpLimits, httpLimitSpecs } from '../../../src/config/limits.ts';
import type { NodeAccess } from '../../../src/node/node-access.ts';
import { RunStreams } from '../../../src/node/run-streams.ts';
import { openStreamListener } from '../../../src/run/streams/open-stream-listener.ts';
import type { ClientSession, StreamClient, StreamEnd } from '../../../src/run/streams/stream-client.ts';
import { StreamHub } from '../../../src/run/streams/stream-hub.ts';
import type { StreamListener } from '../../../src/run/streams/stream-listener.ts';
import { STREAM_PROTOCOL } from '../../../src/run/streams/websocket-listener.ts';
import type { HostReply } from '../../../src/runtime/port/port.ts';
import { CallerLimits } from '../../../src/server/http/caller-limits.ts';
import type { RunQueue } from '../../../src/server/queue/run-queue.ts';
import { selfSigned } from '../../support/certificates.ts';
import { eventually } from '../../support/eventually.ts';
import { frame, frameData } from '../../support/stream-client.ts';
import { until } from '../../support/until.ts';

const NEVER_OPENED = 9;
const LARGE = 'x'.repeat(200_000);
/** More than the 2 MiB after which the host stops reading, and less than host, guest and kernel hold together. */
const MANY = 14;

const folder = mkdtempSync(join(tmpdir(), 'spear-departed-'));
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A hub without a guest: the test says what the guest says, and sees what becomes of clients. */
class Guest implements StreamEnd {
  readonly replies: [call: number, ...HostReply][] = [];
  readonly problems: string[] = [];
  readonly hub = new StreamHub((call, reply) => this.replies.push([call, ...reply]));

  /** Clients that got the place. */
  connected = 0;
  /** Whether the host has stopped reading from a client. */
  hasPaused = false;

  get isTaken(): boolean {
    return this.hub.isTaken;
  }

  get isOver(): boolean {
    return this.hub.isOver;
  }

  evictDeparted(): Promise<void> {
    return this.hub.evictDeparted();
  }

  connect(client: StreamClient): ClientSession | null {
    const pause = () => {
      client.pause();
      this.hasPaused = true;
    };
    const session = this.hub.connect({ ...client, pause });
    if (session !== null) this.connected += 1;
    return session;
  }

  say(call: number, ...request: unknown[]): void {
    this.hub.receive([0, call, 0, ...request] as unknown as Parameters<StreamHub['receive']>[0]);
  }

  frames(call: number): Uint8Array[] {
    return this.replies.flatMap((reply) => (reply[0] === call && reply[1] === 'stream_frame' ? [reply[2]] : []));
  }

  has(call: number, kind: HostReply[0]): boolean {
    return this.replies.some((reply) => reply[0] === call && reply[1] === kind);
  }

  /** Reads so many frames in all. */
  async read(call: number, count: number): Promise<Uint8Array[]> {
    let taken = 0;
    await until(() => {
      for (const given of this.frames(call).slice(taken)) {
        taken += 1;
        this.say(call, 'stream_taken', given.byteLength);
      }
      return taken >= count;
    }, `${count} frames`);
    return this.frames(call);
  }
}

const httpLimits = Object.fromEntries(
  Object.entries(httpLimitSpecs).map(([name, spec]) => [name, spec.default]),
) as HttpLimits;

type OnProblem = (text: string) => void;

const stdio = () => ({ input: new PassThrough(), output: new PassThrough() });

interface Client {
  send(bytes: Uint8Array): void;
  /** Closes the connection without a word. */
  leave(): void;
  readonly isClosed: boolean;
}

const carriers = {
  unix: {
    open: (onProblem: OnProblem) =>
      openStreamListener({
        address: { kind: 'unix', path: join(mkdtempSync(join(folder, 's-')), 's') },
        stdio,
        onProblem,
      }),
    async attach(address: string): Promise<Client & { readonly socket: Socket }> {
      const socket = connect({ path: address.slice('unix:'.length), allowHalfOpen: true });
      socket.on('error', () => {});
      closing.push(() => socket.destroy());
      socket.resume(); // or it does not see that it is refused
      await once(socket, 'connect');
      return {
        socket,
        send: (bytes) => void socket.write(bytes),
        leave: () => void socket.destroy(),
        get isClosed() {
          return socket.destroyed || socket.readableEnded;
        },
      };
    },
  },
  ws: {
    open: (onProblem: OnProblem) =>
      openStreamListener({ address: { kind: 'ws', host: '127.0.0.1', port: 0 }, stdio, onProblem }),
    attach: attachWebSocket,
  },
  'the TLS of a node': { open: openNode, attach: attachWebSocket },
};

async function attachWebSocket(address: string): Promise<Client> {
  const socket = new WebSocket(address, STREAM_PROTOCOL, { rejectUnauthorized: false });
  closing.push(() => socket.terminate());
  await once(socket, 'open');
  socket.on('error', () => {});
  return {
    send: (bytes) => socket.send(bytes),
    leave: () => socket.terminate(),
    get isClosed() {
      return socket.readyState !== WebSocket.OPEN;
    },
  };
}

/** The streams of one run of a node, which admits every client. */
async function openNode(onProblem: OnProblem): Promise<StreamListener> {
  const streams = new RunStreams({
    queue: { find: async () => null, wake: async () => false, onChange: () => () => {} } as unknown as RunQueue,
    node: 'here',
    access: {} as NodeAccess,
    origins: { scheme: 'https', hosts: [], origins: [] },
    callers: new CallerLimits({ limits: httpLimits, onShed: () => {} }),
    log: (_level, _event, fields) => onProblem(String(fields?.problem)),
  });
  const server = createServer(selfSigned());
  server.on('upgrade', (request, socket, head) => {
    // As a client does that asks for a session first.
    const token = streams.session('run', { name: 'ann', whileValid: () => () => {} });
    request.url = `/api/v1/executions/run/streams/ws?token=${token}`;
    streams.upgrade(request, socket, head);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { attach, close } = streams.listen('run');
  return {
    address: `wss://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    attach,
    async close() {
      await close();
      streams.close();
      server.close();
    },
  };
}

async function serve(carrier: keyof typeof carriers): Promise<{ guest: Guest; at: string }> {
  const guest = new Guest();
  const listener = await carriers[carrier].open((text) => guest.problems.push(text));
  closing.push(async () => {
    await guest.hub.close();
    await listener.close();
  });
  listener.attach(guest);
  return { guest, at: listener.address ?? '' };
}

/** Sends until the host does not read any more. */
async function fill(guest: Guest, client: Client, streamId: number): Promise<void> {
  for (let sent = 0; sent < MANY; sent++) client.send(frame(streamId, LARGE, sent));
  await until(() => guest.hasPaused, 'the host to stop reading');
}

/** Connects until there is a place: a check that takes too long on a busy machine refuses a client once. */
async function attachNext(guest: Guest, attach: () => Promise<Client>): Promise<Client> {
  let next: Client | undefined;
  const before = guest.connected;
  await eventually(async () => {
    const client = await attach();
    await until(() => client.isClosed || guest.connected > before, 'the client to be accepted or refused');
    next = client;
    return guest.connected > before;
  }, 'a place for the next client');
  return next as Client;
}

/** Whether frames of the client reach the guest. */
async function expectServed(guest: Guest, client: Client, call: number): Promise<void> {
  guest.say(call, 'stream_open', 1, 3);
  client.send(frame(1, 'next'));
  expect((await guest.read(call, 1)).map(frameData)).toEqual(['next']);
}

describe.each(['unix', 'ws', 'the TLS of a node'] as const)(
  'a client over %s from which the host does not read',
  (carrier) => {
    it('releases its place to another client after it has left [user-stream.departed]', async () => {
      const { guest, at } = await serve(carrier);
      const attach = () => carriers[carrier].attach(at);
      const first = await attach();
      await fill(guest, first, NEVER_OPENED);
      first.leave();
      await expectServed(guest, await attachNext(guest, attach), 1);
    });

    it('keeps its place and its frames while it is connected [user-stream.departed]', async () => {
      const { guest, at } = await serve(carrier);
      const first = await carriers[carrier].attach(at);
      await fill(guest, first, 1);
      for (let tries = 0; tries < 2; tries++) {
        const second = await carriers[carrier].attach(at).catch(() => null);
        if (second !== null) await until(() => second.isClosed, 'the second client to be refused');
      }
      expect(guest.connected).toBe(1);
      guest.say(1, 'stream_open', 1, 3);
      const sequences = (await guest.read(1, MANY)).map((given) => Number(Buffer.from(given).readBigUInt64LE(16)));
      expect(sequences).toEqual(Array.from({ length: MANY }, (_, sequence) => sequence));
      expect([first.isClosed, guest.has(1, 'stream_gone')]).toEqual([false, false]);
    });
  },
);

describe('a client on a socket', () => {
  it('has all frames delivered that it sent before it left, also after the next connects [user-stream.departed]', async () => {
    const { guest, at } = await serve('unix');
    guest.say(1, 'stream_open', 1, 3);
    const first = await carriers.unix.attach(at);
    await fill(guest, first, 1);
    await until(() => first.socket.writableLength === 0, 'the frames to be in the buffers of host and kernel');
    first.leave();
    await attachNext(guest, () => carriers.unix.attach(at));
    expect(guest.has(1, 'stream_gone')).toBe(true);
    expect(await guest.read(1, MANY)).toHaveLength(MANY);
    expect([guest.has(1, 'stream_end'), guest.problems]).toEqual([true, []]);
  });

  it('releases its place if it left after the end of its input [user-stream.departed]', async () => {
    const { guest, at } = await serve('unix');
    guest.say(1, 'stream_open', 1, 3);
    const first = await carriers.unix.attach(at);
    first.leave();
    await until(() => guest.has(1, 'stream_end'), 'the end of the first client');
    guest.say(1, 'stream_close');
    await expectServed(guest, await attachNext(guest, () => carriers.unix.attach(at)), 2);
  });

  it('keeps its place if it only closed its sending side [user-stream.client]', async () => {
    const { guest, at } = await serve('unix');
    guest.say(1, 'stream_open', 1, 3);
    const first = await carriers.unix.attach(at);
    first.socket.end();
    await until(() => guest.has(1, 'stream_end'), 'the end of its input');
    const second = await carriers.unix.attach(at);
    await until(() => second.isClosed, 'the second client to be refused');
    const answer = once(first.socket, 'data');
    guest.say(1, 'stream_frame', frame(1, 'still here'));
    expect(frameData(new Uint8Array((await answer)[0] as Buffer))).toBe('still here');
    expect(guest.has(1, 'stream_gone')).toBe(false);
  });
});
