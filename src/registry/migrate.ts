import { existsSync, renameSync } from 'node:fs';
import { removeDatabase } from '../base/sqlite-file.ts';
import type { EtcdConfig } from '../config/registry/etcd.ts';
import { idOf, type StoreStamps } from '../server/records/record-kind.ts';
import { beginInEtcd, type NewRegistry, openEtcdStore } from '../server/store/etcd/etcd-store.ts';
import { renewEpoch } from '../server/store/sqlite-backup.ts';
import { revisionsAbove } from '../server/store/sqlite-schema.ts';
import { openSqliteStore } from '../server/store/sqlite-store.ts';
import { type RegistryDatabase, type RegistryStore, recordStoreNames, storeNamed } from '../server/store/store.ts';

/** A registry in a file, or in etcd. */
export type RegistryPlace = { readonly file: string } | { readonly etcd: EtcdConfig };

export interface Migrated {
  /** How many records of each kind. */
  readonly counts: ReadonlyMap<string, number>;
  /** What was wrong with what was read, and was not taken along. */
  readonly warnings: readonly string[];
}

/**
 * Copies everything that a registry keeps to a place where there is none. What is made there is another registry: it has an
 * epoch of its own, and its revisions begin above all that the one before has shown. A copy that fails leaves nothing.
 */
export async function migrateRegistry(from: RegistryPlace, to: RegistryPlace): Promise<Migrated> {
  const source = await openPlace(from);
  try {
    const shown = Math.max(...(await Promise.all(recordStoreNames.map((name) => source[name].revision()))));
    const target = 'file' in to ? beginInFile(to.file, shown) : await beginInEtcd(to.etcd, revisionsAbove(shown));
    try {
      const counts = new Map<string, number>();
      for (const name of recordStoreNames) {
        const store = storeNamed(source, name);
        counts.set(store.kind.name, await copyKind(store, storeNamed(target.store, name)));
      }
      await target.keep();
      return { counts, warnings: source.warnings };
    } catch (error) {
      await target.discard();
      throw error;
    }
  } finally {
    await source.close();
  }
}

async function openPlace(place: RegistryPlace): Promise<RegistryDatabase> {
  if ('etcd' in place) return openEtcdStore(place.etcd);
  if (!existsSync(place.file)) throw new Error(`there is no registry at ${place.file}`);
  return openSqliteStore(place.file);
}

/** Beside its place until it is whole. */
function beginInFile(file: string, shown: number): NewRegistry {
  if (existsSync(file)) throw new Error(`${file} already exists and is not overwritten: name another file`);
  const partial = `${file}.migrate`;
  removeDatabase(partial);
  const store = openSqliteStore(partial);
  return {
    store,
    async keep() {
      await store.close();
      renewEpoch(partial, shown);
      renameSync(partial, file);
    },
    async discard() {
      await store.close();
      removeDatabase(partial);
    },
  };
}

async function copyKind(from: RegistryStore<StoreStamps>, to: RegistryStore<StoreStamps>): Promise<number> {
  const { records } = await from.list();
  const origins = await from.origins();
  const changes = records.map((upsert) => {
    const origin = origins.get(idOf(from.kind, upsert));
    return { upsert, ifModRevision: 0, ...(origin === undefined ? {} : { origin }) };
  });
  if (changes.length > 0) await to.apply(changes);
  return changes.length;
}
