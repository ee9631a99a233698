import type { EtcdConfig } from '../../../config/registry/etcd.ts';
import type { KeptRegistry } from '../kept-registry.ts';
import { EtcdClient } from './etcd-client.ts';
import { EtcdKeys } from './etcd-keys.ts';
import { dropAll } from './etcd-operations.ts';
import { openEtcdStore } from './etcd-store.ts';

const ANSWER_MS = 15_000;

export interface NewRegistry {
  readonly store: KeptRegistry;
  /** Closes it; what was written holds. */
  keep(): Promise<void>;
  /** Closes it, and leaves nothing of it. */
  discard(): Promise<void>;
}

/** Begins a registry under a prefix where there is none. @throws where there is something already */
export async function beginInEtcd(config: EtcdConfig, base: number): Promise<NewRegistry> {
  const client = new EtcdClient(config);
  const all = new EtcdKeys(config.prefix).all();
  try {
    const request = { ...all, countOnly: true };
    const { count } = await client.ask(({ kv }, options) => kv.range(request, options), { deadlineMs: ANSWER_MS });
    if (count > 0n) {
      throw new Error(
        `etcd at ${client.name} has ${count} keys under "${config.prefix}/", which are not overwritten: ` +
          'use another prefix (etcd://…/PREFIX), or remove the keys with etcdctl del --prefix',
      );
    }
    const store = await openEtcdStore(config, { base });
    return {
      store,
      async keep() {
        await store.close();
        client.close();
      },
      async discard() {
        await store.close();
        await client.ask(({ kv }, options) => kv.txn({ success: [dropAll(all)] }, options), { deadlineMs: ANSWER_MS });
        client.close();
      },
    };
  } catch (error) {
    client.close();
    throw error;
  }
}
