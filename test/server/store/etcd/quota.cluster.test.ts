import { afterEach, expect, it } from 'vitest';
import { openEtcdStore } from '../../../../src/server/store/etcd/etcd-store.ts';
import type { RegistryDatabase } from '../../../../src/server/store/store.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { until } from '../../../support/until.ts';
import { sampleRecord } from '../../records/server-samples.ts';
import { etcdConfig } from './etcd-config.ts';

const QUOTA_BYTES = 1024 * 1024;
const etcd = useEtcd({ members: 1, flags: ['--quota-backend-bytes', String(QUOTA_BYTES)] });
let store: RegistryDatabase | undefined;
afterEach(() => store?.close());

it('reports that changes cannot be stored while etcd is over its quota, and stays current [registry.quota]', async () => {
  const opened = await openEtcdStore(etcdConfig(etcd().members));
  store = opened;
  expect(opened.writeProblem()).toBeNull();
  const display_name = 'x'.repeat(100);
  const tags = Array.from({ length: 50 }, (_, n) => `${n}-${'t'.repeat(50)}`);
  const fill = async () => {
    for (let n = 0; ; n++) await opened.servers.upsert(sampleRecord(`s${n}`, { display_name, tags }));
  };
  await expect(fill()).rejects.toMatchObject({ code: 'not_stored' });
  await until(() => opened.writeProblem() !== null, 'the alarm to be noticed');
  expect(opened.writeProblem()).toContain('over its quota (alarm NOSPACE)');
  expect((await opened.servers.list()).records.length).toBeGreaterThan(0);
});
