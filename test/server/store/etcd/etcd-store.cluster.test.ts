import { openEtcdStore } from '../../../../src/server/store/etcd/etcd-store.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { describeStore } from '../contract.ts';
import { etcdConfig } from './etcd-config.ts';

const etcd = useEtcd();

describeStore('etcd', async (options) => {
  const database = await openEtcdStore(etcdConfig(etcd().members), options);
  return { store: database.servers, close: () => database.close() };
});
