import { describe, expect, it } from 'vitest';
import { CallQueue } from '../../../../src/agent/mcp/client/call-queue.ts';

const never = new AbortController().signal;

function makeQueue(capacity: number, maxQueued = 100) {
  const queue = new CallQueue({ capacity, maxQueued }, () => new Error('full'));
  const order: string[] = [];
  /** Notes when the place is given; `done` frees one. */
  const enter = (owner: string, label = owner, signal = never) =>
    new Promise<void>((resolve, reject) => {
      const placed = () => {
        order.push(label);
        resolve();
      };
      if (queue.take()) {
        placed();
        return;
      }
      const entry = { owner, onSlot: placed, onEvicted: reject };
      queue.enter(entry);
      signal.addEventListener('abort', () => {
        queue.leave(entry);
        reject(signal.reason);
      });
    });
  const done = async () => {
    queue.release();
    await new Promise(setImmediate);
  };
  return { queue, order, enter, done };
}

describe('places', () => {
  it('are given at once while there are any', async () => {
    const { queue, enter } = makeQueue(2);
    await Promise.all([enter('a'), enter('b')]);
    expect([queue.running, queue.queued]).toEqual([2, 0]);
  });

  it('can be taken without waiting, but never before those that wait', async () => {
    const { queue, enter, order, done } = makeQueue(1);
    expect([queue.take(), queue.take()]).toEqual([true, false]);
    const first = enter('a');
    queue.setCapacity(1);
    queue.release();
    expect(queue.take()).toBe(false);
    await first;
    expect(order).toEqual(['a']);
    await done();
    expect(queue.take()).toBe(true);
  });

  it('go round between owners, in order within one', async () => {
    const { order, enter, done } = makeQueue(1);
    await enter('a', 'a0');
    const waiting = [
      ...['a1', 'a2', 'a3'].map((l) => enter('a', l)),
      enter('b', 'b1'),
      enter('c', 'c1'),
      enter('b', 'b2'),
    ];
    for (let i = 0; i < waiting.length; i++) await done();
    await Promise.all(waiting);
    expect(order).toEqual(['a0', 'a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('are not overtaken by a newcomer who finds one free', async () => {
    const { queue, order, enter, done } = makeQueue(1);
    await enter('a', 'a0');
    const first = enter('a', 'a1');
    const second = enter('b', 'b1');
    expect(queue.queued).toBe(2);
    await done();
    await done();
    await Promise.all([first, second]);
    expect(order).toEqual(['a0', 'a1', 'b1']);
  });

  it('are refused beyond the bound', async () => {
    const { queue, enter } = makeQueue(1, 2);
    await enter('a');
    void enter('a');
    void enter('b');
    await expect(enter('c')).rejects.toThrow('full');
    expect(queue.queued).toBe(2);
  });

  it('are not kept by one owner who fills the line', async () => {
    const { queue, order, enter, done } = makeQueue(1, 3);
    await enter('greedy', 'g0');
    const greedy = ['g1', 'g2', 'g3'].map((label) => enter('greedy', label));
    const modest = enter('modest', 'm1');
    await expect(greedy[2]).rejects.toThrow('full');
    await expect(enter('greedy', 'g4')).rejects.toThrow('full');
    expect(queue.queued).toBe(3);
    for (let i = 0; i < 3; i++) await done();
    await Promise.all([modest, greedy[0], greedy[1]]);
    expect(order).toEqual(['g0', 'g1', 'm1', 'g2']);
  });

  it('are left by whoever cancels while waiting', async () => {
    const { queue, order, enter, done } = makeQueue(1);
    await enter('a', 'a0');
    const cancel = new AbortController();
    const cancelled = enter('a', 'a1', cancel.signal);
    const next = enter('a', 'a2');
    cancel.abort(new Error('enough'));
    await expect(cancelled).rejects.toThrow('enough');
    expect(queue.queued).toBe(1);
    await done();
    await next;
    expect(order).toEqual(['a0', 'a2']);
  });

  it('are given to any number of calls that end as soon as they have theirs, without any depth', () => {
    const { queue } = makeQueue(1, 20_000);
    let ended = 0;
    queue.take();
    for (let i = 0; i < 20_000; i++) {
      const onSlot = () => {
        ended += 1;
        queue.release();
      };
      queue.enter({ owner: 'a', onSlot, onEvicted: () => {} });
    }
    queue.release();
    expect([ended, queue.running, queue.queued]).toEqual([20_000, 0, 0]);
  });

  it('become more or fewer while calls wait', async () => {
    const { queue, enter, done } = makeQueue(1);
    const all = ['1', '2', '3', '4'].map((label) => enter('a', label));
    await all[0];
    queue.setCapacity(3);
    await Promise.all(all.slice(0, 3));
    expect([queue.running, queue.queued]).toEqual([3, 1]);
    queue.setCapacity(1);
    await done();
    await done();
    expect([queue.running, queue.queued]).toEqual([1, 1]);
    await done();
    await all[3];
  });
});
