import { expect, it } from 'vitest';
import { AllRunEvents, activationOf, type RunEvent, type RunUpdate } from '../../../src/server/queue/run-events.ts';

const statuses = (events: readonly RunEvent[]) => events.map(({ data }) => JSON.parse(data) as string);

it('an attempt that was replaced tells nothing any more, not even that the run has ended', () => {
  const all = new AllRunEvents();
  const emitted: RunEvent[][] = [[], []];
  const first = all.begin('run', 1, (event) => emitted[0]?.push(event));
  first.emit('status', 'running');
  const second = all.begin('run', 2, (event) => emitted[1]?.push(event));
  first.emit('status', 'queued');
  first.idle();
  first.end();
  second.emit('status', 'running again');
  expect(all.of('run')?.hasEnded).toBe(false);
  second.end();
  expect(all.of('run')?.hasEnded).toBe(true);
  expect(emitted.map(statuses)).toEqual([['running'], ['running again']]);
  expect(emitted.flat().map(activationOf)).toEqual([1, 2]);
});

it('ids increase over all activations of a run, however many events the earlier ones had', () => {
  const all = new AllRunEvents();
  for (const life of [1, 1, 2]) {
    const attempt = all.begin('run', life);
    attempt.emit('status', 'running');
    attempt.emit('status', 'queued');
    attempt.idle();
  }
  const ids =
    all
      .of('run')
      ?.since(null)
      .events.map(({ id }) => id) ?? [];
  expect(ids).toHaveLength(6);
  expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b));
});

it('readers of an idle run continue with its next attempt, or are notified that its events were evicted', () => {
  const all = new AllRunEvents();
  const heard: RunUpdate[] = [];
  const attempt = all.begin('run', 1);
  all.of('run')?.listen((news) => heard.push(news));
  attempt.emit('status', 'parked');
  attempt.idle();
  const next = all.begin('run', 2);
  next.emit('status', 'running');
  next.idle();
  for (let n = 0; n < 128; n++) all.begin(`other-${n}`, 1).end();
  expect(heard.map((news) => (typeof news === 'string' ? news : JSON.parse(news.data)))).toEqual([
    'parked',
    'running',
    'gone',
  ]);
  expect(all.of('run')).toBeNull();
});
