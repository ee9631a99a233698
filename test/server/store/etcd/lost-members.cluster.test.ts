import { afterEach, describe, expect, it } from 'vitest';
import type { Member } from '../../../../scripts/engines/member.ts';
import type { RegistryEvent } from '../../../../src/server/records/record-kind.ts';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import { openEtcdStore } from '../../../../src/server/store/etcd/etcd-store.ts';
import type { RegistryDatabase } from '../../../../src/server/store/store.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { until } from '../../../support/until.ts';
import { sampleRecord } from '../../records/server-samples.ts';
import { etcdConfig } from './etcd-config.ts';

const etcd = useEtcd();
const opened: RegistryDatabase[] = [];
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

async function open(config: Parameters<typeof openEtcdStore>[0]): Promise<RegistryDatabase> {
  const store = await openEtcdStore(config);
  opened.push(store);
  return store;
}

/** All events of a watcher, checked to have no gaps. */
async function follow(store: RegistryDatabase, since: number): Promise<RegistryEvent<McpServerRecord>[]> {
  const seen: RegistryEvent<McpServerRecord>[] = [];
  const events = store.servers.watch(since, new AbortController().signal);
  void (async () => {
    for await (const event of events) seen.push(event);
  })().catch(() => {});
  return seen;
}

async function leader(members: readonly Member[]): Promise<Member> {
  for (const member of members) {
    const text = await (await fetch(`http://${member.address}/metrics`)).text();
    if (/^etcd_server_is_leader 1$/m.test(text)) return member;
  }
  throw new Error('there is no leader');
}

const WRITES = 120;

describe('killing members of etcd during writes', () => {
  it.each(['the member that is watched', 'the leader'])(
    '%s: none lost, none twice, in order [etcd.members]',
    async (whom) => {
      const { members } = etcd();
      const config = etcdConfig(members);
      const writer = await open({ ...config, endpoints: [...config.endpoints].reverse() });
      const watcher = await open(config);
      const seen = await follow(watcher, await watcher.servers.revision());
      const killed = whom === 'the leader' ? await leader(members) : members[0];
      const acknowledged: number[] = [];
      for (let n = 0; n < WRITES; n++) {
        if (n === WRITES / 3) void killed?.kill();
        const { revision, changed } = await writer.servers.upsert(sampleRecord(`s${n % 7}`, { display_name: `${n}` }));
        expect(changed).toBe(true);
        acknowledged.push(revision);
      }
      await until(() => seen.at(-1)?.revision === acknowledged.at(-1), 'the last event');
      await killed?.start();
      expect(seen.map(({ revision }) => revision)).toEqual(acknowledged);
      expect(seen.map(({ upserts }) => upserts[0]?.display_name)).toEqual(acknowledged.map((_, n) => `${n}`));
      expect(seen.slice(1).map(({ prevRevision }) => prevRevision)).toEqual(acknowledged.slice(0, -1));
    },
  );

  it('rejects reads without a quorum, and recovers with one [etcd.current]', async () => {
    const { members } = etcd();
    const store = await open(etcdConfig(members));
    await store.servers.upsert(sampleRecord('a'));
    const [, second, third] = members;
    await Promise.all([second?.kill(), third?.kill()]);
    await until(() => store.servers.currencyProblem() !== null, 'the loss of the quorum to be noticed');
    await expect(store.servers.list()).rejects.toMatchObject({ code: 'not_current' });
    await expect(store.servers.get('a')).rejects.toMatchObject({ code: 'not_current' });
    await expect(store.servers.upsert(sampleRecord('b'))).rejects.toMatchObject({ code: 'not_current' });
    expect(store.writeProblem()).toContain('no confirmation from etcd for');
    await Promise.all([second?.start(), third?.start()]);
    await until(() => store.servers.currencyProblem() === null, 'etcd to confirm it again');
    expect((await store.servers.list()).records.map(({ server_id }) => server_id)).toEqual(['a']);
    expect((await store.servers.upsert(sampleRecord('b'))).changed).toBe(true);
  });
});
