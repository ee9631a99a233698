import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { GuestPort } from '../../../src/runtime/host/guest-port.ts';
import type { GuestMessage, HostReply } from '../../../src/runtime/port/port.ts';
import { until } from '../../support/until.ts';

const done = (body: string): HostReply => ['done', null, body, '{}'];
const message = (call: number, body: string) => [7, call, 'done', null, body, '{}'];
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

function open() {
  const { port1, port2 } = new MessageChannel();
  onTestFinished(() => port2.close());
  const port = new GuestPort(port1);
  const posted = vi.spyOn(port1, 'postMessage');
  /** Messages that reached the guest thread. */
  const arrived = () => {
    const found: unknown[] = [];
    for (let next = receiveMessageOnPort(port2); next; next = receiveMessageOnPort(port2)) found.push(next.message);
    return found;
  };
  return { port, guest: port2, posted, arrived };
}

describe('replies to a guest', () => {
  it('of one macrotask are posted together in its microtasks, in order', async () => {
    const { port, arrived } = open();
    for (const call of [1, 2, 3]) port.post(7, call, done(`${call}`));
    expect(arrived()).toEqual([]);
    await null;
    expect(arrived()).toEqual([[[message(1, '1'), message(2, '2'), message(3, '3')]]]);
    port.post(7, 4, done('4'));
    await null;
    expect(arrived()).toEqual([message(4, '4')]);
    await port.close();
  });

  it('of separate macrotasks are posted one by one', async () => {
    const { port, posted } = open();
    for (const call of [1, 2, 3]) {
      port.post(7, call, done(''));
      await turn();
      await turn();
    }
    expect(posted).toHaveBeenCalledTimes(3);
    await port.close();
  });

  it('are dropped after the port is closed', async () => {
    const { port, arrived } = open();
    port.post(7, 1, done('1'));
    port.post(7, 2, done('2'));
    await port.close();
    await turn();
    port.post(7, 3, done('3'));
    await turn();
    expect(arrived()).toEqual([[[message(1, '1'), message(2, '2')]]]);
  });
});

describe('messages of a guest', () => {
  const notice = (text: string) => [7, 0, 0, 'notice', text];

  it('that have arrived are taken in one macrotask, in order', async () => {
    const { port, guest } = open();
    const turns: string[] = [];
    port.listen({
      receive: (message: GuestMessage) => {
        turns.push(String(message[4]));
        queueMicrotask(() => turns.push('a turn'));
      },
      recordEvents: null,
      violated: (why) => turns.push(why),
    });
    for (const text of ['one', 'two', 'three']) guest.postMessage(notice(text));
    await until(() => turns.length === 6, 'the messages');
    expect(turns).toEqual(['one', 'two', 'three', 'a turn', 'a turn', 'a turn']);
    await port.close();
  });

  it('are all taken when the port closes, also after invalid ones', async () => {
    const { port, guest } = open();
    const received: unknown[] = [];
    port.listen({
      receive: (one: GuestMessage) => {
        if (one[4] === 'odd') throw new Error('of the receiver');
        received.push(one[4]);
      },
      recordEvents: null,
      violated: (why) => received.push(why),
    });
    for (const text of ['one', 'odd', 'two']) guest.postMessage(notice(text));
    guest.postMessage('no message');
    guest.postMessage([[notice('three'), 'no message']]);
    guest.postMessage(notice('last'));
    guest.close();
    await port.close();
    const none = expect.stringContaining('not a message');
    expect(received).toEqual(['one', 'of the receiver', 'two', none, 'three', none, 'last']);
  });
});
