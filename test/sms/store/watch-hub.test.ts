import { expect, it } from 'vitest';
import type { RegistryEvent } from '../../../src/protocol/record-events.ts';
import { WatchHub } from '../../../src/sms/store/watch-hub.ts';

function event(revision: number): RegistryEvent {
  return { epoch: 'e', revision, prevRevision: revision - 1, upserts: [], deletes: ['x'] };
}

const open = () => new AbortController().signal;

it('forgets watchers that were cut off, stopped or returned', async () => {
  const hub = new WatchHub(2);
  const stopping = new AbortController();
  hub.subscribe(null, open());
  hub.subscribe(null, stopping.signal);
  const leaving = hub.subscribe(null, open());
  expect(hub.watcherCount).toBe(3);
  stopping.abort();
  hub.publish(event(1));
  for await (const _event of leaving) break;
  expect(hub.watcherCount).toBe(1);
  hub.publish(event(2));
  hub.publish(event(3));
  expect(hub.watcherCount).toBe(0);
});

it('serves several reads of one watcher in order', async () => {
  const hub = new WatchHub(2);
  const reader = hub.subscribe(event(1), open())[Symbol.asyncIterator]();
  const reads = [reader.next(), reader.next(), reader.next()];
  hub.publish(event(2));
  hub.publish(event(3));
  const values = (await Promise.all(reads)).map((result) => (result.value as RegistryEvent).revision);
  expect(values).toEqual([1, 2, 3]);
});
