import { resolve } from 'node:path';
import { ETCD_SCHEME } from '../../config/registry/etcd.ts';
import { loadRegistryConfig, type RegistryConfigFlags } from '../../config/registry/registry-config.ts';
import { migrateRegistry, type RegistryPlace } from '../../registry/migrate.ts';
import { UsageError } from '../exit-codes.ts';

const FILE_SCHEME = 'sqlite:';

/** Copies a registry to another place. Returns messages. */
export async function migrate(
  from: string,
  to: string,
  flags: RegistryConfigFlags,
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  const { counts, warnings } = await migrateRegistry(
    placeOf('--from', from, flags, env),
    placeOf('--to', to, flags, env),
  );
  const copied = [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ');
  return [
    ...warnings,
    `copied from ${from} to ${to}: ${copied}`,
    'the copy has a new epoch, so nodes fetch all data again; start spear-sms on the copy and stop using the source',
  ];
}

function placeOf(flag: string, text: string, flags: RegistryConfigFlags, env: NodeJS.ProcessEnv): RegistryPlace {
  if (text.startsWith(FILE_SCHEME)) return { file: resolve(text.slice(FILE_SCHEME.length)) };
  if (text.startsWith(ETCD_SCHEME)) {
    const { etcd } = loadRegistryConfig({ flags: { ...flags, store: text }, env });
    if (etcd !== null) return { etcd };
  }
  throw new UsageError(`${flag}: expected ${FILE_SCHEME}FILE or ${ETCD_SCHEME}HOST:PORT,…, found "${text}"`);
}
