import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import type { RegistryEvent } from '../../../src/server/records/record-kind.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { WatchHub } from '../../../src/server/store/watch-hub.ts';

function event(revision: number): RegistryEvent<McpServerRecord> {
  return { epoch: 'e', revision, prevRevision: revision - 1, upserts: [], deletes: ['x'] };
}

const open = () => new AbortController().signal;
/** A watcher holds on to its signal for as long as it is there. */
const isHeld = (signal: AbortSignal) => getEventListeners(signal, 'abort').length > 0;

it('drops watchers that were disconnected, aborted or returned', async () => {
  const hub = new WatchHub(2);
  const stopping = new AbortController();
  const [slow, stopped, left] = [open(), stopping.signal, open()];
  const held = () => [slow, stopped, left].map(isHeld);
  hub.subscribe(null, slow);
  hub.subscribe(null, stopped);
  const leaving = hub.subscribe(null, left);
  expect(held()).toEqual([true, true, true]);
  stopping.abort();
  hub.publish(event(1));
  for await (const _event of leaving) break;
  expect(held()).toEqual([true, false, false]);
  hub.publish(event(2));
  hub.publish(event(3));
  expect(held()).toEqual([false, false, false]);
});

it('answers concurrent reads of one watcher in order', async () => {
  const hub = new WatchHub(2);
  const reader = hub.subscribe(event(1), open())[Symbol.asyncIterator]();
  const reads = [reader.next(), reader.next(), reader.next()];
  hub.publish(event(2));
  hub.publish(event(3));
  const values = (await Promise.all(reads)).map((result) => (result.value as RegistryEvent<McpServerRecord>).revision);
  expect(values).toEqual([1, 2, 3]);
});
