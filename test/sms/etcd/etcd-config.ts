import { randomUUID } from 'node:crypto';
import type { EtcdConfig } from '../../../src/config/sms/etcd.ts';
import type { Cluster } from '../../support/engines/member.ts';

/** A registry of its own in these members; the first is asked first. */
export function etcdConfig(members: Cluster['members'], prefix = `spear-${randomUUID()}`): EtcdConfig {
  return {
    endpoints: members.map(({ address }) => `http://${address}`),
    prefix,
    tls: { ca: null, cert: null, key: null },
    login: null,
  };
}
