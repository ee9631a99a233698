import type { RegistryConfig } from '../../config/registry/registry-config.ts';
import type { ServiceLog } from '../log/service-log.ts';
import type { KeptRegistry } from './kept-registry.ts';
import { openSqliteStore } from './sqlite-store.ts';

/** The registry where the config says that it is kept. */
export async function openStore({ files, etcd, limits }: RegistryConfig, log: ServiceLog): Promise<KeptRegistry> {
  const bounds = { keptChanges: limits.kept_changes, watcherQueue: limits.watcher_queue };
  if (etcd === null) return openSqliteStore(files.data, { ...bounds, maxBytes: limits.max_bytes });
  const { openEtcdStore } = await import('./etcd/etcd-store.ts');
  return openEtcdStore(etcd, { ...bounds, log: (problem) => log('error', 'store', { problem }) });
}
