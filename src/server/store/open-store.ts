import type { RegistryConfig } from '../../config/registry/registry-config.ts';
import type { ServiceLog } from '../log/service-log.ts';
import { openSqliteStore } from './sqlite-store.ts';
import type { RegistryDatabase } from './store.ts';

/** Opens the registry database that the config names: SQLite or etcd. */
export async function openStore({ files, etcd, limits }: RegistryConfig, log: ServiceLog): Promise<RegistryDatabase> {
  const bounds = { keptChanges: limits.kept_changes, watcherQueue: limits.watcher_queue };
  if (etcd === null) return openSqliteStore(files.data, { ...bounds, maxBytes: limits.max_bytes });
  const { openEtcdStore } = await import('./etcd/etcd-store.ts');
  return openEtcdStore(etcd, { ...bounds, log: (problem) => log('error', 'store', { problem }) });
}
