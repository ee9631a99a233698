import { randomUUID } from 'node:crypto';
import type { Cluster } from '../../../../scripts/engines/member.ts';
import type { EtcdConfig } from '../../../../src/config/registry/etcd.ts';

/** A registry of its own in these members; the first is asked first. */
export function etcdConfig(members: Cluster['members'], prefix = `spear-${randomUUID()}`): EtcdConfig {
  return {
    endpoints: members.map(({ address }) => `http://${address}`),
    prefix,
    tls: { ca: null, cert: null, key: null },
    login: null,
  };
}
