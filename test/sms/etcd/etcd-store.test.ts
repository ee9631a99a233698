import { randomUUID } from 'node:crypto';
import type { EtcdConfig } from '../../../src/config/sms/etcd.ts';
import { openEtcdStore } from '../../../src/sms/etcd/etcd-store.ts';
import { useEtcd } from '../../support/engines/use-engine.ts';
import { describeStore } from '../store/contract.ts';

const etcd = useEtcd();

function config(prefix: string): EtcdConfig {
  return {
    endpoints: etcd().members.map(({ address }) => `http://${address}`),
    prefix,
    tls: { ca: null, cert: null, key: null },
    login: null,
  };
}

describeStore('etcd', (options) => openEtcdStore(config(`spear-${randomUUID()}`), options));
