import { afterEach, describe, expect, it } from 'vitest';
import type { RegistryEvent } from '../../../src/server/records/record-kind.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import type { RegistryStore } from '../../../src/server/store/store.ts';
import { sampleRecord } from '../records/server-samples.ts';

export interface ContractOptions {
  readonly keptChanges?: number;
  readonly watcherQueue?: number;
  readonly now?: () => number;
}

export interface OpenedStore {
  readonly store: RegistryStore;
  close(): Promise<void>;
}

/** What every backend must do. `open` makes a new empty store. */
export function describeStore(backend: string, open: (options?: ContractOptions) => Promise<OpenedStore>): void {
  describe(`the ${backend} store`, () => {
    const opened: OpenedStore[] = [];
    afterEach(async () => {
      for (const store of opened.splice(0)) await store.close();
    });

    async function newStore(options?: ContractOptions): Promise<RegistryStore> {
      const next = await open(options);
      opened.push(next);
      return next.store;
    }

    /** A watch whose events can be read one by one. */
    function watching(store: RegistryStore, since: number) {
      const controller = new AbortController();
      const events = store.watch(since, controller.signal)[Symbol.asyncIterator]();
      return {
        next: async (): Promise<RegistryEvent<McpServerRecord>> => (await events.next()).value,
        step: () => events.next(),
        stop: () => controller.abort(),
      };
    }

    const idsOf = (event: RegistryEvent<McpServerRecord>) => event.upserts.map((record) => record.server_id);

    it('starts empty, at revision 0 or higher [store.revision]', async () => {
      const store = await newStore();
      const listing = await store.list();
      expect(listing).toEqual({ epoch: await store.epoch(), revision: await store.revision(), records: [] });
      expect(listing.revision).toBeGreaterThanOrEqual(0);
      expect(listing.epoch).not.toBe('');
      expect(await store.get('fs')).toBeNull();
    });

    it('has an epoch of its own [store.epoch]', async () => {
      expect(await (await newStore()).epoch()).not.toBe(await (await newStore()).epoch());
    });

    it('returns records with revision and time, ordered by id', async () => {
      let time = 1000;
      const store = await newStore({ now: () => time++ });
      const b = await store.upsert(sampleRecord('b', { mod_revision: 99, updated_at_ms: 99 }));
      const a = await store.upsert(sampleRecord('a'));
      expect(b).toEqual({
        revision: b.revision,
        record: { ...sampleRecord('b'), mod_revision: b.revision, updated_at_ms: 1000 },
        changed: true,
      });
      expect(await store.get('b')).toEqual(b.record);
      expect((await store.list()).records).toEqual([a.record, b.record]);
    });

    it('increases the revision with every change and only then [store.revision]', async () => {
      const store = await newStore();
      const seen = [await store.revision()];
      seen.push((await store.upsert(sampleRecord('a'))).revision);
      seen.push((await store.upsert(sampleRecord('a', { display_name: 'A' }))).revision);
      seen.push(await store.remove('a'));
      seen.push((await store.upsert(sampleRecord('a'))).revision);
      for (const [index, revision] of seen.slice(1).entries()) expect(revision).toBeGreaterThan(seen[index] ?? 0);

      const last = seen.at(-1);
      const again = await store.upsert(sampleRecord('a', { updated_at_ms: 7, mod_revision: 7 }));
      expect(again).toMatchObject({ revision: last, changed: false, record: { mod_revision: last } });
      await expect(store.remove('none')).rejects.toMatchObject({ code: 'not_found' });
      expect(await store.revision()).toBe(last);
    });

    it('writes only if the record is at the expected revision', async () => {
      const store = await newStore();
      const made = await store.upsert(sampleRecord('a'), { ifModRevision: 0 });
      const changed = sampleRecord('a', { display_name: 'A' });
      const refused = async (work: Promise<unknown>, code: string) => {
        await expect(work).rejects.toMatchObject({ name: 'StoreError', code });
        expect(await store.revision()).toBe(made.revision);
      };
      await refused(store.upsert(changed, { ifModRevision: 0 }), 'already_exists');
      await refused(store.upsert(sampleRecord('a'), { ifModRevision: 0 }), 'already_exists');
      await refused(store.upsert(changed, { ifModRevision: made.revision + 1 }), 'revision_mismatch');
      await refused(store.upsert(sampleRecord('none'), { ifModRevision: made.revision }), 'not_found');
      await refused(store.remove('a', { ifModRevision: made.revision + 1 }), 'revision_mismatch');
      await refused(store.remove('none', { ifModRevision: made.revision }), 'not_found');

      const next = await store.upsert(changed, { ifModRevision: made.revision });
      expect(await store.remove('a', { ifModRevision: next.revision })).toBeGreaterThan(next.revision);
      expect(await store.get('a')).toBeNull();
    });

    it('applies many changes as one step, and watchers receive one event [store.apply]', async () => {
      const store = await newStore();
      const kept = await store.upsert(sampleRecord('kept'));
      const gone = await store.upsert(sampleRecord('gone'));
      const watch = watching(store, gone.revision);
      const result = await store.apply([
        { upsert: sampleRecord('b'), origin: 'directory:b.toml', ifModRevision: 0 },
        { upsert: sampleRecord('kept'), ifModRevision: kept.revision },
        { remove: 'gone', ifModRevision: gone.revision },
        { upsert: sampleRecord('a') },
      ]);
      const { records: servers, revision } = await store.list();
      expect(servers.map((record) => record.server_id)).toEqual(['a', 'b', 'kept']);
      expect(result).toEqual({
        revision,
        records: [await store.get('b'), kept.record, null, await store.get('a')],
        changed: 3,
      });
      expect((await store.origins()).get('b')).toBe('directory:b.toml');
      for (const id of ['a', 'b']) {
        const at = (await store.get(id))?.mod_revision ?? 0;
        expect(at > gone.revision && at <= revision).toBe(true);
      }

      const next = await store.upsert(sampleRecord('next'));
      const event = await watch.next();
      expect(event).toMatchObject({ prevRevision: gone.revision, revision, deletes: ['gone'] });
      expect(idsOf(event).sort()).toEqual(['a', 'b']);
      expect(await watch.next()).toMatchObject({ prevRevision: revision, revision: next.revision });
      const replayed = await watching(store, gone.revision).next();
      expect(replayed).toMatchObject({ revision: next.revision, deletes: ['gone'] });
      expect(idsOf(replayed)).toEqual(['a', 'b', 'next']);
    });

    it('applies none of many changes if one is not possible [store.apply]', async () => {
      const store = await newStore();
      const { revision } = await store.upsert(sampleRecord('a'));
      const before = await store.list();
      const watch = watching(store, revision);
      const b = { upsert: sampleRecord('b') };
      const refused: [Parameters<RegistryStore['apply']>[0][number], string][] = [
        [{ upsert: sampleRecord('a'), ifModRevision: 0 }, 'already_exists'],
        [{ upsert: sampleRecord('a'), ifModRevision: revision + 1 }, 'revision_mismatch'],
        [{ remove: 'a', ifModRevision: revision + 1 }, 'revision_mismatch'],
        [{ remove: 'missing' }, 'not_found'],
        [{ upsert: sampleRecord('c'), ifModRevision: revision }, 'not_found'],
      ];
      for (const [change, code] of refused) {
        await expect(store.apply([b, change])).rejects.toMatchObject({ name: 'StoreError', code });
      }
      await expect(store.apply([b, b])).rejects.toThrow('"b" is changed twice in one batch');
      expect(await store.list()).toEqual(before);
      expect(await store.apply([])).toEqual({ revision, records: [], changed: 0 });
      expect(await store.apply([{ upsert: sampleRecord('a') }])).toMatchObject({ revision, changed: 0 });
      await store.upsert(sampleRecord('c'));
      expect(await watch.next()).toMatchObject({ prevRevision: revision });
    });

    it('serves concurrent writes while it prepares many changes, and respects them [store.apply]', async () => {
      const store = await newStore({ keptChanges: 100 });
      const many = Array.from({ length: 3_000 }, (_, index) => ({
        upsert: sampleRecord(`s${index}`),
        ifModRevision: 0,
      }));
      const start = await store.revision();
      const watch = watching(store, start);
      let turns = 0;
      const count = () => {
        turns += 1;
        counting = setImmediate(count);
      };
      let counting = setImmediate(count);
      const losing = expect(store.apply(many)).rejects.toMatchObject({ code: 'already_exists' });
      const first = await store.upsert(sampleRecord('s2999'));
      await losing;
      const { revision, changed } = await store.apply(many.slice(0, -1));
      clearImmediate(counting);
      expect(turns).toBeGreaterThan(2);
      expect(changed).toBe(2_999);
      expect(await watch.next()).toMatchObject({ prevRevision: start, revision: first.revision });
      expect(await watch.next()).toMatchObject({ prevRevision: first.revision, revision });
      await expect(watching(store, first.revision).step()).rejects.toMatchObject({ code: 'compacted' });
      expect((await store.list()).records).toHaveLength(3_000);
    });

    it('stores the origin of a record beside it', async () => {
      const store = await newStore();
      await store.upsert(sampleRecord('a'));
      const b = await store.upsert(sampleRecord('b'), { origin: 'directory:b.toml' });
      expect(b.record).not.toHaveProperty('origin');
      expect(await store.origins()).toEqual(
        new Map([
          ['a', 'api'],
          ['b', 'directory:b.toml'],
        ]),
      );

      // Writing the same content keeps the origin; changing it does not.
      await store.upsert(sampleRecord('a'), { origin: 'directory:a.toml' });
      await store.upsert(sampleRecord('b', { display_name: 'B' }));
      expect(await store.origins()).toEqual(
        new Map([
          ['a', 'api'],
          ['b', 'api'],
        ]),
      );
      await store.remove('b');
      expect(await store.origins()).toEqual(new Map([['a', 'api']]));
    });

    it('sends every change to a watcher, each starting at the end of the previous one', async () => {
      const store = await newStore();
      const start = await store.revision();
      const watch = watching(store, start);
      const a = await store.upsert(sampleRecord('a'));
      await store.upsert(sampleRecord('a'));
      const gone = await store.remove('a');
      expect(await watch.next()).toEqual({
        epoch: await store.epoch(),
        revision: a.revision,
        prevRevision: start,
        upserts: [a.record],
        deletes: [],
      });
      expect(await watch.next()).toMatchObject({
        revision: gone,
        prevRevision: a.revision,
        upserts: [],
        deletes: ['a'],
      });
    });

    it('wakes a waiting watcher', async () => {
      const store = await newStore();
      const watch = watching(store, await store.revision());
      const waiting = watch.next();
      await store.upsert(sampleRecord('a'));
      expect(idsOf(await waiting)).toEqual(['a']);
    });

    it('sends the changes since a revision as one event, then later changes', async () => {
      const store = await newStore();
      await store.upsert(sampleRecord('old'));
      const since = (await store.upsert(sampleRecord('gone'))).revision;
      await store.upsert(sampleRecord('a'));
      await store.remove('gone');
      const last = await store.upsert(sampleRecord('a', { display_name: 'A' }));

      const watch = watching(store, since);
      const next = await store.upsert(sampleRecord('b'));
      const past = await watch.next();
      expect(past).toMatchObject({ prevRevision: since, revision: last.revision, deletes: ['gone'] });
      expect(past.upserts).toEqual([last.record]);
      expect(await watch.next()).toMatchObject({ prevRevision: last.revision, revision: next.revision });
    });

    it('leaves no gap between past and later changes', async () => {
      const store = await newStore();
      const readers: Promise<void>[] = [];
      const writes = 60;
      for (let i = 0; i < writes; i++) {
        const written = store.upsert(sampleRecord(`s${i}`));
        const watch = watching(store, 0);
        readers.push(
          (async () => {
            const seen = new Set<string>();
            let at = 0;
            while (seen.size < writes) {
              const event = await watch.next();
              expect(event.prevRevision).toBe(at);
              at = event.revision;
              for (const id of idsOf(event)) seen.add(id);
            }
            watch.stop();
          })(),
        );
        await written;
      }
      await Promise.all(readers);
    });

    it('ends a watch on its signal', async () => {
      const store = await newStore();
      const watch = watching(store, await store.revision());
      const waiting = watch.step();
      watch.stop();
      expect(await waiting).toEqual({ done: true, value: undefined });
      await store.upsert(sampleRecord('a'));
      expect(await watch.step()).toEqual({ done: true, value: undefined });
      expect(await store.watch(0, AbortSignal.abort())[Symbol.asyncIterator]().next()).toMatchObject({ done: true });
    });

    it.each([1, 1.5, -1, Number.NaN, Number.MAX_SAFE_INTEGER])(
      'refuses a watch from a revision that never was: +%s',
      async (offset) => {
        const store = await newStore();
        const watch = watching(store, (await store.revision()) + offset);
        await expect(watch.step()).rejects.toMatchObject({ code: 'future_revision' });
      },
    );

    it('compacts old changes: a watch from there fails, a watch from 0 gets all records', async () => {
      const store = await newStore({ keptChanges: 3 });
      const revisions: number[] = [];
      for (const id of ['a', 'b', 'c', 'd', 'e']) revisions.push((await store.upsert(sampleRecord(id))).revision);
      revisions.push(await store.remove('a'));
      const [, second = 0, third = 0, fourth = 0] = revisions;
      await expect(watching(store, second).step()).rejects.toMatchObject({ code: 'compacted' });
      expect(await watching(store, third).next()).toMatchObject({ prevRevision: third, deletes: ['a'] });
      expect(idsOf(await watching(store, fourth).next())).toEqual(['e']);
      const all = await watching(store, 0).next();
      expect(all).toMatchObject({ prevRevision: 0, revision: await store.revision(), deletes: [] });
      expect(idsOf(all)).toEqual(['b', 'c', 'd', 'e']);
    });

    it('sends no event to a watcher from 0 while the store is empty', async () => {
      const store = await newStore();
      const watch = watching(store, 0);
      const first = watch.next();
      await store.upsert(sampleRecord('a'));
      expect(idsOf(await first)).toEqual(['a']);
    });

    it('disconnects a watcher that does not read, without delaying others', async () => {
      const store = await newStore({ watcherQueue: 4 });
      const start = await store.revision();
      const slow = watching(store, start);
      const quick = watching(store, start);
      const seen: string[] = [];
      for (let i = 0; i < 10; i++) {
        const reading = quick.next();
        await store.upsert(sampleRecord(`s${i}`));
        seen.push(...idsOf(await reading));
      }
      expect(seen).toHaveLength(10);
      await expect(slow.step()).rejects.toMatchObject({ code: 'lagging' });
      await expect(slow.step()).rejects.toMatchObject({ code: 'lagging' });
    });

    it('buffers as many events for a watcher as its queue holds', async () => {
      const store = await newStore({ watcherQueue: 4 });
      const watch = watching(store, await store.revision());
      for (let i = 0; i < 4; i++) await store.upsert(sampleRecord(`s${i}`));
      for (let i = 0; i < 4; i++) expect(idsOf(await watch.next())).toEqual([`s${i}`]);
    });

    it('fails with closed after close', async () => {
      const store = await newStore();
      const watch = watching(store, await store.revision());
      const waiting = watch.step();
      await store.close();
      await expect(waiting).rejects.toMatchObject({ code: 'closed' });
      const calls = [
        () => store.epoch(),
        () => store.revision(),
        () => store.list(),
        () => store.get('a'),
        () => store.upsert(sampleRecord('a')),
        () => store.remove('a'),
        () => store.apply([]),
        () => store.origins(),
        () => watching(store, 0).step(),
      ];
      for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'closed' });
      await store.close();
    });

    it('returns frozen records', async () => {
      const store = await newStore();
      const { record } = await store.upsert(sampleRecord('a'));
      expect(Object.isFrozen(record) && Object.isFrozen(record.stdio)).toBe(true);
      expect(await store.get('a')).toEqual(record);
    });
  });
}
