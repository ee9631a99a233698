import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { compatEtcd, type WrittenKeys } from '../../scripts/compat/etcd-keys.ts';
import { approvalStatuses } from '../../src/server/records/approval.ts';
import { EtcdClient } from '../../src/server/store/etcd/etcd-client.ts';
import { bytesOf, type Operation, put } from '../../src/server/store/etcd/etcd-keys.ts';
import { openEtcdStore } from '../../src/server/store/etcd/etcd-store.ts';
import { useEtcd } from '../support/engines/use-engine.ts';
import { compatFixture } from './copied-fixture.ts';

const etcd = useEtcd({ members: 1 });
const written = JSON.parse(readFileSync(compatFixture('etcd-keys.json'), 'utf8')) as WrittenKeys;
const LAST_REVISION = 32;

/** Writes every key at the revision that it had: revisions of records are those of their keys. */
async function load(address: string): Promise<void> {
  const client = new EtcdClient(compatEtcd(address));
  const filler = put(bytesOf('filler'), bytesOf(''));
  for (let revision = 2; revision <= LAST_REVISION; revision++) {
    const keys = written.filter((one) => one.revision === revision);
    const success: Operation[] = keys.map(({ key, value }) => put(bytesOf(key), bytesOf(value)));
    const request = { success: success.length === 0 ? [filler] : success };
    const { header } = await client.ask(({ kv }, options) => kv.txn(request, options), { deadlineMs: 10_000 });
    expect(header?.revision).toBe(BigInt(revision));
  }
  client.close();
}

it('opens a registry in etcd with the records of every kind, and changes it [compat.etcd]', async () => {
  const address = etcd().members[0]?.address ?? '';
  await load(address);
  const store = await openEtcdStore(compatEtcd(address));
  expect(store.warnings).toEqual([]);
  const { revision, records } = await store.servers.list();
  expect(revision).toBe(LAST_REVISION);
  expect(records).toMatchObject([{ server_id: 'bank', mod_revision: 3, approval_policy: { default: 'always' } }]);
  expect((await store.profiles.list()).records).toMatchObject([{ name: 'review', mod_revision: 5 }]);
  const approvals = (await store.approvals.list()).records;
  expect(approvals.map(({ status }) => status).sort()).toEqual([...approvalStatuses].sort());
  expect((await store.pins.list()).records).toMatchObject([{ pin_id: 'tracker/get_issue', mod_revision: 12 }]);
  expect((await store.tokens.list()).records).toMatchObject([{ name: 'ann', roles: ['approver'] }]);
  const tasks = ['echo', 'exit', 'hello', 'payer', 'sleep', 'spin'];
  expect((await store.tasks.list()).records).toMatchObject(tasks.map((name) => ({ live: { name } })));
  expect((await store.taskRevisions.list()).records).toMatchObject(tasks.map((name) => ({ name, revision: 1 })));
  // A large import moved this kind to another key range, and copied what was there before.
  const uses = (await store.tokenUses.list()).records;
  expect(uses).toHaveLength(126);
  expect(uses.find(({ name }) => name === 'ann')).toMatchObject({ mod_revision: 14 });
  expect(uses.find(({ name }) => name === 'robot-7')).toMatchObject({ last_used_at_ms: 7, mod_revision: 30 });

  const [bank] = records;
  if (bank === undefined) throw new Error('no server');
  const changed = await store.servers.upsert({ ...bank, display_name: 'Bank' }, { ifModRevision: 3 });
  expect(changed.record).toMatchObject({ display_name: 'Bank', mod_revision: LAST_REVISION + 1 });
  await store.tokenUses.remove('robot-7');
  expect(await store.tokenUses.get('robot-7')).toBeNull();
  await store.close();
});
