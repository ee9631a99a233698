import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { migrateRegistry } from '../../../../src/registry/migrate.ts';
import { openEtcdStore } from '../../../../src/server/store/etcd/etcd-store.ts';
import { openSqliteStore } from '../../../../src/server/store/sqlite-store.ts';
import { stopAll, temporaryDirectory } from '../../../registry/running-sms.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { sampleRecord } from '../../records/server-samples.ts';
import { etcdConfig } from './etcd-config.ts';

const etcd = useEtcd({ members: 1 });
afterEach(stopAll);

const SERVERS = 300;
const use = { name: 'ci', last_used_at_ms: 7, updated_at_ms: 0, mod_revision: 0 };

/** A registry with records of several kinds and origins. */
async function filled(file: string): Promise<number> {
  const store = openSqliteStore(file);
  await store.servers.apply(Array.from({ length: SERVERS }, (_, n) => ({ upsert: sampleRecord(`s${n}`) })));
  await store.servers.upsert(sampleRecord('from-file'), { origin: 'directory:from-file.toml' });
  await store.tokenUses.upsert(use);
  const revision = await store.servers.revision();
  await store.close();
  return revision;
}

const content = (records: readonly { readonly server_id: string }[]) =>
  records.map((record) => ({ ...record, mod_revision: 0, updated_at_ms: 0 }));

describe('spear-sms migrate', () => {
  it('copies everything from a file to etcd and back, with revisions above all earlier ones [etcd.migrate]', async () => {
    const folder = temporaryDirectory();
    const [file, back] = [join(folder, 'a.db'), join(folder, 'b.db')];
    const shown = await filled(file);
    const config = etcdConfig(etcd().members);
    const { counts } = await migrateRegistry({ file }, { etcd: config });
    expect(Object.fromEntries(counts)).toMatchObject({ server: SERVERS + 1, profile: 0, token_use: 1 });

    const there = await openEtcdStore(config);
    const { epoch, revision, records } = await there.servers.list();
    const origins = await there.servers.origins();
    expect(revision).toBeGreaterThan(shown + 100_000);
    expect(await there.profiles.revision()).toBeGreaterThan(shown + 100_000);
    expect(await there.tokenUses.get('ci')).toMatchObject({ last_used_at_ms: 7 });
    expect(origins.get('from-file')).toBe('directory:from-file.toml');
    expect((await there.servers.upsert(sampleRecord('more'))).revision).toBeGreaterThan(revision);
    await there.close();

    await migrateRegistry({ etcd: config }, { file: back });
    const [was, is] = [openSqliteStore(file), openSqliteStore(back)];
    const [before, after] = [await was.servers.list(), await is.servers.list()];
    expect(content(after.records)).toEqual([...content(before.records), ...content([sampleRecord('more')])].sort(byId));
    expect(content(records)).toEqual(content(before.records));
    expect(new Set([before.epoch, epoch, after.epoch]).size).toBe(3);
    expect(after.revision).toBeGreaterThan(revision);
    expect(await is.tokenUses.get('ci')).toMatchObject({ last_used_at_ms: 7 });
    await Promise.all([was.close(), is.close()]);
  });

  it('copies every kind, including tasks and their revisions [etcd.migrate]', async () => {
    const folder = temporaryDirectory();
    const [file, back] = [join(folder, 'a.db'), join(folder, 'b.db')];
    copyFileSync(new URL('../../../../fixtures/compat/registry/registry.db', import.meta.url), file);
    const config = etcdConfig(etcd().members);
    const before = openSqliteStore(file);
    await before.stops.upsert({
      ...{ stop_id: 'a1b2c3d4', scope: 'namespace', name: 'team-a', effect: 'stop', reason: 'incident' },
      ...{ created_by: 'ann', created_at_ms: 1, authority: '*', updated_at_ms: 0, mod_revision: 0 },
    });
    await before.close();
    const { counts } = await migrateRegistry({ file }, { etcd: config });
    for (const [kind, count] of counts) expect([kind, count > 0]).toEqual([kind, true]);
    await migrateRegistry({ etcd: config }, { file: back });
    const [was, is] = [openSqliteStore(file), openSqliteStore(back)];
    const idsOf = async ({ tasks, taskRevisions, stops }: typeof was) =>
      [...(await tasks.list()).records, ...(await taskRevisions.list()).records, ...(await stops.list()).records].map(
        ({ mod_revision: _, updated_at_ms: __, ...record }) => record,
      );
    expect(await idsOf(was)).not.toEqual([]);
    expect(await idsOf(is)).toEqual(await idsOf(was));
    await Promise.all([was.close(), is.close()]);
  });

  it('overwrites nothing, and leaves nothing behind if it fails [etcd.migrate]', async () => {
    const folder = temporaryDirectory();
    const [file, other] = [join(folder, 'a.db'), join(folder, 'b.db')];
    await filled(file);
    const config = etcdConfig(etcd().members);
    await migrateRegistry({ file }, { etcd: config });
    await expect(migrateRegistry({ file }, { etcd: config })).rejects.toThrow('not overwritten');
    await expect(migrateRegistry({ etcd: config }, { file })).rejects.toThrow('not overwritten');
    await expect(migrateRegistry({ file: other }, { etcd: config })).rejects.toThrow(`no registry at ${other}`);
    expect(existsSync(other)).toBe(false);
  });
});

function byId(a: { readonly server_id: string }, b: { readonly server_id: string }): number {
  return a.server_id < b.server_id ? -1 : 1;
}
