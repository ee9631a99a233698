import { afterAll, beforeAll, beforeEach } from 'vitest';
import { etcd } from '../../../scripts/engines/etcd.ts';
import { type EtcdOptions, startEtcd } from '../../../scripts/engines/etcd-cluster.ts';
import type { Cluster } from '../../../scripts/engines/member.ts';
import { type NatsOptions, startNats } from '../../../scripts/engines/nats-cluster.ts';
import { natsServer } from '../../../scripts/engines/nats-server.ts';

/**
 * A cluster for the tests of a file or a block: started before the first, ended after the last. Where the engine is missing
 * they are skipped, and say so; in CI that is a failure.
 */
export const useEtcd = (options?: EtcdOptions) => useCluster(etcd, () => startEtcd(options));

export const useNats = (options?: NatsOptions) => useCluster(natsServer, () => startNats(options));

function useCluster(engine: () => Promise<string>, start: () => Promise<Cluster>): () => Cluster {
  let cluster: Cluster | undefined;
  let missing: string | undefined;
  beforeAll(async () => {
    missing = await engine().then(() => undefined, complaint);
    if (missing === undefined) cluster = await start();
  });
  beforeEach(({ skip }) => {
    if (missing !== undefined) skip(missing);
  });
  afterAll(() => cluster?.stop());
  return () => {
    if (!cluster) throw new Error('the cluster is there from beforeAll to afterAll');
    return cluster;
  };
}

export function complaint(error: unknown): string {
  const text = `SKIPPED: ${error instanceof Error ? error.message : String(error)}`;
  if (process.env.CI === 'true') throw new Error(text);
  process.stderr.write(`\n!!! ${text}\n\n`);
  return text;
}
