import { afterAll, beforeAll } from 'vitest';
import type { Engine } from '../../../scripts/engines/bring.ts';
import { etcd } from '../../../scripts/engines/etcd.ts';
import { type EtcdOptions, startEtcd } from '../../../scripts/engines/etcd-cluster.ts';
import type { Cluster } from '../../../scripts/engines/member.ts';
import { type NatsOptions, startNats } from '../../../scripts/engines/nats-cluster.ts';
import { natsServer } from '../../../scripts/engines/nats-server.ts';
import { needsEngine, skipIfMissing } from '../needs.ts';

/**
 * A cluster for the tests of a file or a block: started before the first, ended after the last. Without the engine the
 * tests are skipped; in CI that is a failure.
 */
export const useEtcd = (options?: EtcdOptions) => useCluster(etcd, () => startEtcd(options));

export const useNats = (options?: NatsOptions) => useCluster(natsServer, () => startNats(options));

function useCluster(engine: Engine, start: () => Promise<Cluster>): () => Cluster {
  let cluster: Cluster | undefined;
  const missing = needsEngine(engine);
  skipIfMissing(missing);
  beforeAll(async () => {
    if (missing === undefined) cluster = await start();
  });
  afterAll(() => cluster?.stop());
  return () => {
    if (!cluster) throw new Error('the cluster is there from beforeAll to afterAll');
    return cluster;
  };
}
