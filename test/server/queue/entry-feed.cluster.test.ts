import { type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EntryFeed, type EntryUpdate } from '../../../src/server/queue/nats/entry-feed.ts';
import { retryTransient } from '../../../src/server/queue/nats/nats-errors.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { clearStreams } from './nats-clusters.ts';

const cluster = useNats();
const PATIENCE_MS = 30_000;
const connections: NatsConnection[] = [];
const feeds: EntryFeed[] = [];
let writer: { readonly kv: KV; readonly jsm: JetStreamManager };

const addresses = () => cluster().members.map(({ address }) => address);
const opened = async () => {
  const nc = await connect({ servers: addresses(), maxReconnectAttempts: -1, reconnectTimeWait: 100 });
  connections.push(nc);
  return { nc, jsm: await jetstreamManager(nc) };
};
const follow = async () => {
  const { nc, jsm } = await opened();
  const news: EntryUpdate[] = [];
  const feed = new EntryFeed(nc, jsm, (one) => news.push(one));
  feeds.push(feed);
  await feed.ready;
  return news;
};
const put = (key: string, text: string) => retryTransient(PATIENCE_MS, () => writer.kv.put(key, text));
const texts = (news: readonly EntryUpdate[]) => news.map(({ id, text }) => `${id}=${text}`);
const feedConsumers = async () => {
  const found = [];
  for await (const info of writer.jsm.consumers.list('KV_spear_runs')) found.push(info);
  return found;
};

beforeEach(async () => {
  await clearStreams(cluster());
  const { nc, jsm } = await opened();
  writer = { kv: await new Kvm(jetstream(nc)).create('spear_runs', { replicas: 3, history: 1 }), jsm };
});
afterEach(async () => {
  for (const feed of feeds.splice(0)) feed.stop();
  for (const nc of connections.splice(0)) await nc.close();
});

describe('the feed of entries', () => {
  it('emits the last value of every entry, and then every change and removal', async () => {
    expect(await follow()).toEqual([]);
    for (const text of ['1', '2']) for (const key of ['a', 'b']) await put(key, text);
    const news = await follow();
    expect(texts(news)).toEqual(['a=2', 'b=2']);
    await put('a', '3');
    await writer.kv.purge('b');
    await put('c', '1');
    await expect.poll(() => texts(news)).toEqual(['a=2', 'b=2', 'a=3', 'b=null', 'c=1']);
    const revisions = news.map(({ revision }) => revision);
    expect(revisions).toEqual(revisions.toSorted((one, other) => one - other));
  });

  it('emits ten thousand entries without being disconnected', async () => {
    const ids = Array.from({ length: 10_000 }, (_, index) => `run-${index}`);
    const text = 'x'.repeat(1_000);
    for (let at = 0; at < ids.length; at += 500) await Promise.all(ids.slice(at, at + 500).map((id) => put(id, text)));
    const news = await follow();
    expect(new Set(news.map(({ id }) => id)).size).toBe(ids.length);
    expect(news).toHaveLength(ids.length);
  });

  it('continues with a new consumer after its consumer was removed', async () => {
    const news = await follow();
    // The member that answers the list may learn of a consumer later than the feed does.
    let name = '';
    const found = async () => {
      name = (await feedConsumers())[0]?.name ?? '';
      return name;
    };
    await expect.poll(found).not.toBe('');
    await writer.jsm.consumers.delete('KV_spear_runs', name);
    await put('a', '1');
    await expect.poll(() => texts(news)).toEqual(['a=1']);
  });

  it('continues within seconds after any server is killed, without missing or repeating an entry [cluster.hears]', async () => {
    const news = await follow();
    const wanted: string[] = [];
    for (const [at, member] of cluster().members.entries()) {
      await put('a', `before ${at}`);
      await member.kill();
      await put('b', `after ${at}`);
      const written = performance.now();
      wanted.push(`a=before ${at}`, `b=after ${at}`);
      await expect.poll(() => texts(news)).toEqual(wanted);
      // A server that is gone is noticed after three seconds and a half; a stream needs a new leader besides.
      expect(performance.now() - written).toBeLessThan(20_000);
      await member.start();
    }
  }, 150_000);
});
