import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jetstream } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { connect, credsAuthenticator } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadRegistryConfig } from '../../../src/config/registry/registry-config.ts';
import { openNats } from '../../../src/server/queue/nats/connect.ts';
import { NatsQueue } from '../../../src/server/queue/nats/nats-queue.ts';
import { RUNS_BUCKET } from '../../../src/server/queue/nats/streams.ts';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { Secret } from '../../../src/server/secrets/secret.ts';
import { onStop, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../../registry/running-sms.ts';
import { applyTask, hello, putBlob } from '../../registry/tasks/task-calls.ts';
import { newAuthority } from '../../support/certificates.ts';
import { natsAccounts } from '../../support/engines/nats-accounts.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { nextClaim } from '../queue/nats-clusters.ts';
import { success } from '../queue/queue-contract.ts';

// One registry for two teams, each with an account of its own on NATS.

const folder = temporaryDirectory();
const accounts = natsAccounts(['team-a', 'team-b']);
const authority = newAuthority();
const server = authority.issue('nats');
const written = (name: string, text: string) => {
  writeFileSync(join(folder, name), text, { mode: 0o600 });
  return join(folder, name);
};
const ca = written('ca.pem', authority.cert);
const tls = `tls { cert_file: "${written('server.crt', server.cert)}", key_file: "${written('server.key', server.key)}" }`;
const nats = useNats({ members: 1, config: `${tls}\n${accounts.config}` });
let sms: TestSms;

/** As the config file says it. */
function queueOf(toml: string) {
  const text = `[runs]\nqueue = "tls://${nats().members[0]?.address}"\n[nats]\nca = "ca.pem"\npatience_ms = 5000\n${toml}`;
  return loadRegistryConfig({ flags: { config: written('sms.toml', text) }, env: { HOME: folder } }).queue;
}

/** What a node of a team has. */
async function nodeOf(account: string): Promise<NatsQueue> {
  const creds = accounts.creds(account);
  const servers = nats().members.map(({ address }) => address);
  const address = {
    servers,
    tls: true,
    ca,
    identity: null,
    creds: () => new Secret(creds),
    name: 'a node',
    silenceMs: 30_000,
    onStatus: () => {},
  };
  const bounds = { replicas: 1, maxRuns: 100, leaseMs: 2_000, patienceMs: 5_000, submitTimeoutMs: 5_000 };
  const queue = await openNats(address, (nc) => NatsQueue.open(nc, bounds));
  onStop(() => queue.close());
  return queue;
}

beforeAll(async () => {
  for (const name of ['team-a', 'team-b']) written(`${name}.creds`, accounts.creds(name));
  sms = await startTestSms({
    queue: queueOf('[nats.accounts]\nteam-a = "file:team-a.creds"\nteam-b = "file:team-b.creds"'),
  });
  await putBlob(sms, hello);
  for (const namespace of ['team-a', 'team-b', 'default']) await applyTask(sms, { name: 'hello', namespace });
}, 60_000);
afterAll(stopAll);

describe('a registry of several teams', () => {
  const submit = (namespace: string, text: string) =>
    sms.http('POST', `/v1/namespaces/${namespace}/tasks/hello/runs`, { text });

  it('stores and reads the runs of each namespace in its account [cluster.accounts]', async () => {
    const [a, b] = await Promise.all([nodeOf('team-a'), nodeOf('team-b')]);
    const made = (await submit('team-a', 'of a')).body as unknown as RunRecord;
    expect(made).toMatchObject({ namespace: 'team-a', status: 'queued', submitted_by: 'bootstrap-admin' });
    expect(await b.get('team-a', made.id)).toBeNull();
    const claim = await nextClaim(a);
    expect(Buffer.from((await a.input(claim.run.id)) ?? []).toString()).toBe('of a');
    await a.finish(claim, success('done by a'));
    const result = `/v1/namespaces/team-a/runs/${made.id}/result`;
    await expect.poll(async () => (await sms.http('GET', result)).text).toBe('done by a');
    expect((await sms.http('GET', `/v1/namespaces/team-b/runs/${made.id}`)).status).toBe(404);
    expect((await sms.http('GET', '/v1/namespaces/team-b/runs')).body).toEqual({ runs: [], cursor: null });
  });

  it('does not show data of one account to another namespace [cluster.accounts]', async () => {
    const made = (await submit('team-b', 'of b')).body as unknown as RunRecord;
    const own = (await submit('team-a', 'of a')).body as unknown as RunRecord;
    // What a client with the credentials of team-a can write: a run of team-b, and another state of the real one.
    const creds = credsAuthenticator(Buffer.from(accounts.creds('team-a')));
    const servers = nats().members.map(({ address }) => address);
    const nc = await connect({ servers, authenticator: creds, tls: { ca: authority.cert } });
    onStop(() => nc.close());
    const kv = await new Kvm(jetstream(nc)).open(RUNS_BUCKET);
    const entry = JSON.parse((await kv.get(own.id))?.string() ?? '{}') as { run: RunRecord };
    const forged = (id: string, more: object) =>
      kv.put(id, JSON.stringify({ ...entry, objects: [], run: { ...entry.run, id, namespace: 'team-b', ...more } }));
    await forged('forged-1', { status: 'succeeded' });
    await forged(made.id, { status: 'succeeded' });
    const last = `/v1/namespaces/team-a/runs/${(await submit('team-a', 'after')).body.id}`;
    await expect.poll(async () => (await sms.http('GET', last)).status).toBe(200);
    expect((await sms.http('GET', `/v1/namespaces/team-b/runs/${made.id}`)).body).toMatchObject({ status: 'queued' });
    const { body } = await sms.http('GET', '/v1/namespaces/team-b/runs');
    expect((body.runs as RunRecord[]).map(({ id }) => id)).toEqual([made.id]);
    for (const id of ['forged-1', made.id]) {
      expect((await sms.http('GET', `/v1/namespaces/team-a/runs/${id}`)).status).toBe(404);
    }
    // The account of team-a reaches no subject of the other.
    const js = jetstream(nc);
    const direct = js.publish(`spear.team-b.run.default.${made.id}`, '{}');
    await direct.catch(() => {});
    expect((await sms.http('GET', `/v1/namespaces/team-b/runs/${made.id}`)).body).toMatchObject({ status: 'queued' });
  });

  it('rejects runs of a namespace without an account [cluster.accounts]', async () => {
    const refused = await submit('default', 'x');
    expect(refused.status).toBe(409);
    expect(refused.text).toContain('the namespace default has no NATS account (nats.accounts, nats.creds)');
  });

  it('does not start with rejected credentials, or a config without any account', async () => {
    written('stranger.creds', natsAccounts(['team-a']).creds('team-a'));
    const wrong = startTestSms({ queue: queueOf('[nats.accounts]\nteam-a = "file:stranger.creds"') });
    await expect(wrong).rejects.toThrow('rejected the credentials in nats.accounts.team-a');
    const config = written('none.toml', '[nats]\nca = "ca.pem"');
    expect(() => loadRegistryConfig({ flags: { config }, env: { HOME: folder } })).toThrow(
      'neither --queue nor runs.queue',
    );
    const flags = { config: written('clear.toml', '[runs]\nqueue = "nats://10.0.0.1:4222"') };
    expect(() => loadRegistryConfig({ flags, env: { HOME: folder } })).toThrow(
      'runs.queue: inputs, results and journals',
    );
  });
});
