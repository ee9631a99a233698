import { afterEach, describe, expect, it } from 'vitest';
import { openEtcdStore } from '../../../../src/server/store/etcd/etcd-store.ts';
import type { RegistryDatabase } from '../../../../src/server/store/store.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { sampleRecord } from '../../records/server-samples.ts';
import { etcdConfig } from './etcd-config.ts';

const etcd = useEtcd({ members: 1 });
const opened: RegistryDatabase[] = [];
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

/** Two that have the same registry open. */
async function openTwo(): Promise<[RegistryDatabase, RegistryDatabase]> {
  const config = etcdConfig(etcd().members);
  const stores: [RegistryDatabase, RegistryDatabase] = [await openEtcdStore(config), await openEtcdStore(config)];
  opened.push(...stores);
  return stores;
}

const many = (count: number) => Array.from({ length: count }, (_, n) => ({ upsert: sampleRecord(`s${n}`) }));

describe('two stores on one etcd', () => {
  it('are one registry with the same epoch, revisions and content [etcd.copies]', async () => {
    const [a, b] = await openTwo();
    expect(await a.servers.epoch()).toBe(await b.servers.epoch());
    const events = b.servers.watch(await b.servers.revision(), new AbortController().signal)[Symbol.asyncIterator]();
    const { revision, record } = await a.servers.upsert(sampleRecord('x'), { origin: 'directory:x.toml' });
    expect((await events.next()).value).toMatchObject({ revision, upserts: [record] });
    expect(await b.servers.get('x')).toEqual(record);
    expect(await b.servers.origins()).toEqual(new Map([['x', 'directory:x.toml']]));
  });

  it('check conditions against etcd, not against their own memory [etcd.copies]', async () => {
    const [a, b] = await openTwo();
    const { record } = await a.servers.upsert(sampleRecord('x'));
    // Both know the record; of two writers at the same moment one wins.
    await b.servers.watch(0, AbortSignal.timeout(45_000))[Symbol.asyncIterator]().next();
    const both = await Promise.allSettled(
      [a, b].map((store, n) =>
        store.servers.upsert(sampleRecord('x', { display_name: `${n}` }), { ifModRevision: record.mod_revision }),
      ),
    );
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(both.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'revision_mismatch' } });

    // A write that repeats what the other has just replaced is a change, however far behind the mirror is.
    for (let n = 0; n < 20; n++) {
      await a.servers.upsert(sampleRecord('x', { display_name: 'new' }));
      expect((await b.servers.upsert(sampleRecord('x', { display_name: 'old' }))).changed).toBe(true);
    }
    const gone = await a.servers.remove('x');
    await expect(b.servers.remove('x')).rejects.toMatchObject({ code: 'not_found' });
    expect(await b.servers.revision()).toBe(gone);
  });

  it('a watch resumes at its revision on the other store, even if that one is behind [etcd.resume]', async () => {
    const [a, b] = await openTwo();
    for (let n = 0; n < 30; n++) {
      const { revision } = await a.servers.upsert(sampleRecord('x', { display_name: `${n}` }));
      const stop = new AbortController();
      const events = b.servers.watch(revision, stop.signal)[Symbol.asyncIterator]();
      const next = events.next();
      const after = await a.servers.upsert(sampleRecord('y', { display_name: `${n}` }));
      expect((await next).value).toMatchObject({ prevRevision: revision, revision: after.revision });
      stop.abort();
    }
    const ahead = (await a.servers.revision()) + 1;
    const never = b.servers.watch(ahead, new AbortController().signal)[Symbol.asyncIterator]();
    await expect(never.next()).rejects.toMatchObject({ code: 'future_revision' });
  });

  it('an import is one event on both, while others write [etcd.import]', async () => {
    const [a, b] = await openTwo();
    const { revision: before, record: kept } = await b.servers.upsert(sampleRecord('kept'));
    const events = b.servers.watch(before, new AbortController().signal)[Symbol.asyncIterator]();
    const importing = a.servers.apply(many(500));
    const others = (async () => {
      for (let n = 0; n < 5; n++) await b.servers.upsert(sampleRecord('other', { display_name: `${n}` }));
    })();
    const [{ revision, changed }] = await Promise.all([importing, others]);
    expect(changed).toBe(500);
    const seen = [];
    for (let at = before; seen.length < 6; ) {
      const { value } = await events.next();
      expect(value.prevRevision).toBe(at);
      at = value.revision;
      seen.push(value);
    }
    const whole = seen.find((event) => event.revision === revision);
    expect(whole?.upserts).toHaveLength(500);
    expect(seen.filter(({ upserts }) => upserts.length === 1)).toHaveLength(5);
    // What the import only carried along is as it was, and can be written on condition of that.
    expect(await b.servers.get('kept')).toEqual(kept);
    expect(await a.servers.get('kept')).toEqual(kept);
    const changedLater = await a.servers.upsert(sampleRecord('kept', { display_name: 'now' }), {
      ifModRevision: kept.mod_revision,
    });
    expect(changedLater.changed).toBe(true);
    const third = await openEtcdStore(etcdConfig(etcd().members, 'another'));
    opened.push(third);
    expect((await third.servers.list()).records).toEqual([]);
  });
});
