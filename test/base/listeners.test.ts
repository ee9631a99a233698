import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import { Listeners } from '../../src/base/listeners.ts';

it('tells everybody who listens, until they stop', () => {
  const listeners = new Listeners<number>();
  const heard: string[] = [];
  const stop = listeners.add((value) => heard.push(`a${value}`));
  listeners.add((value) => heard.push(`b${value}`));
  listeners.notify(1);
  stop();
  listeners.notify(2);
  expect(heard).toEqual(['a1', 'b1', 'b2']);
});

it('tells those who listened when it began', () => {
  const listeners = new Listeners<void>();
  const heard: string[] = [];
  const stop = listeners.add(() => {
    heard.push('first');
    stop();
    listeners.add(() => heard.push('new'));
  });
  listeners.add(() => heard.push('second'));
  listeners.notify();
  expect(heard).toEqual(['first', 'second']);
});

it('notifies the listeners after one that throws, and its error surfaces as an uncaught exception', async () => {
  const own = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  onTestFinished(() => {
    for (const listener of own) process.on('uncaughtException', listener);
  });
  const surfaced = once(process, 'uncaughtException');
  const listeners = new Listeners<void>();
  const heard: string[] = [];
  listeners.add(() => {
    throw new Error('a bug');
  });
  listeners.add(() => heard.push('second'));
  listeners.notify();
  expect(heard).toEqual(['second']);
  expect(await surfaced).toMatchObject([{ message: 'a bug' }, 'uncaughtException']);
});
