import { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CONNECT_WAIT_MS, WaitingClients } from '../../src/node/run-streams.ts';
import type { StreamEnd } from '../../src/run/streams/stream-client.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

class FakeSocket extends Duplex {
  sent = '';

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.sent += chunk;
    done();
  }

  get answer(): string {
    return this.sent.split('\r\n')[0] ?? '';
  }
}

function waiting(run = 'r1', clients = new WaitingClients()) {
  const socket = new FakeSocket();
  const entered: StreamEnd[] = [];
  const isTaken = clients.add(run, socket, (hub) => entered.push(hub));
  return { clients, socket, entered, isTaken };
}

const hub = {} as StreamEnd;

describe('a client that waits for the guest of its run', () => {
  it('enters when the guest is there, once, and is not turned away later', () => {
    const { clients, socket, entered } = waiting();
    expect(clients.has('r1')).toBe(true);
    clients.admit('r1', hub);
    clients.admit('r1', hub);
    vi.advanceTimersByTime(CONNECT_WAIT_MS);
    expect([entered, socket.sent, clients.has('r1'), vi.getTimerCount()]).toEqual([[hub], '', false, 0]);
  });

  it('is turned away after 30 s', () => {
    const { clients, socket, entered } = waiting();
    vi.advanceTimersByTime(CONNECT_WAIT_MS - 1);
    expect(socket.sent).toBe('');
    vi.advanceTimersByTime(1);
    expect(socket.answer).toBe('HTTP/1.1 503 Service Unavailable');
    clients.admit('r1', hub);
    expect([entered, clients.has('r1')]).toEqual([[], false]);
  });

  it('is turned away with a reason, whose length is right', () => {
    const { clients, socket } = waiting();
    clients.reject('r1', { status: '404 Not Found', reason: 'no such run – sorry' });
    const [head = '', body = ''] = socket.sent.split('\r\n\r\n');
    expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
    expect([head.split('\r\n')[0], body]).toEqual(['HTTP/1.1 404 Not Found', 'no such run – sorry\n']);
  });

  it('is turned away where it sends frames before it is let in', async () => {
    const { clients, socket } = waiting();
    socket.push(Buffer.from('a frame'));
    await turn();
    expect([socket.answer, clients.has('r1')]).toEqual(['HTTP/1.1 400 Bad Request', false]);
  });

  it.each([
    ['ends', (socket: Duplex) => socket.push(null)],
    ['breaks', (socket: Duplex) => socket.destroy()],
  ])('leaves its place to another where its connection %s', async (_, leave) => {
    const { clients, socket } = waiting();
    leave(socket);
    await turn();
    expect([clients.has('r1'), socket.destroyed, vi.getTimerCount()]).toEqual([false, true, 0]);
    expect(waiting('r1', clients).isTaken).toBe(true);
  });

  it('is the only one of its run', () => {
    const { clients, socket } = waiting();
    const second = waiting('r1', clients);
    expect([second.isTaken, second.socket.answer, socket.sent]).toEqual([false, 'HTTP/1.1 409 Conflict', '']);
  });

  it('is one of at most 1,000', () => {
    const clients = new WaitingClients();
    for (let n = 0; n < 1_000; n++) expect(waiting(`r${n}`, clients).isTaken).toBe(true);
    const late = waiting('late', clients);
    expect([late.isTaken, late.socket.answer]).toEqual([false, 'HTTP/1.1 503 Service Unavailable']);
    clients.admit('r7', hub);
    expect(waiting('late', clients).isTaken).toBe(true);
  });

  it('is turned away when the node closes, as all others', () => {
    const { clients, socket } = waiting();
    const other = waiting('r2', clients);
    clients.close({ status: '503 Service Unavailable', reason: 'the node is stopping' });
    for (const { sent } of [socket, other.socket]) expect(sent).toContain('the node is stopping');
    expect(vi.getTimerCount()).toBe(0);
  });
});
