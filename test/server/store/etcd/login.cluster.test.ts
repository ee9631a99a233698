import { describe, expect, it } from 'vitest';
import { Secret } from '../../../../src/server/secrets/secret.ts';
import { openEtcdStore } from '../../../../src/server/store/etcd/etcd-store.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { sampleRecord } from '../../records/server-samples.ts';
import { etcdConfig } from './etcd-config.ts';

const etcd = useEtcd({ members: 1 });

/** etcd's own HTTP side. */
async function manage(path: string, json: object): Promise<void> {
  const [member] = etcd().members;
  const answer = await fetch(`http://${member?.address}/v3/auth/${path}`, {
    method: 'POST',
    body: JSON.stringify(json),
  });
  expect(answer.ok, await answer.text()).toBe(true);
}

describe('an etcd with authentication', () => {
  it('works with user and password, and without them the message names the settings [etcd.login]', async () => {
    await manage('user/add', { name: 'root', password: 'right' });
    await manage('user/grant', { user: 'root', role: 'root' });
    await manage('enable', {});
    const config = etcdConfig(etcd().members);
    const as = (password: string) => ({ ...config, login: { user: 'root', password: () => new Secret(password) } });
    const store = await openEtcdStore(as('right'));
    expect((await store.servers.upsert(sampleRecord('a'))).changed).toBe(true);
    await store.close();
    await expect(openEtcdStore(config)).rejects.toThrow('store.etcd.user');
    const wrong = await openEtcdStore(as('wr0ng')).catch((error: Error) => error.message);
    expect(wrong).toContain('authentication failed');
    expect(wrong).not.toContain('wr0ng');
  });
});
