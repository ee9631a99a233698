import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { freePorts } from '../../../../scripts/engines/owned-process.ts';
import { ApiClient, registryPeer } from '../../../../src/cli/api-client.ts';
import { findRegistryAdmin } from '../../../../src/config/registry/registry-endpoint.ts';
import { RegistryCache } from '../../../../src/registry-client/cache.ts';
import { failoverSource } from '../../../../src/registry-client/failover.ts';
import { createRemoteSource } from '../../../../src/registry-client/remote-source.ts';
import { boundCall, clientOf, decide, questionOf, waiting } from '../../../agent/approvals/asking-node.ts';
import { untilRevision } from '../../../registry/cache-events.ts';
import {
  fsRecord,
  onStop,
  startTestSms,
  stopAll,
  type TestSms,
  temporaryDirectory,
} from '../../../registry/running-sms.ts';
import { spawnSms } from '../../../registry/sms-process.ts';
import { useEtcd } from '../../../support/engines/use-engine.ts';
import { eventually } from '../../../support/eventually.ts';
import { until } from '../../../support/until.ts';
import { createToken, tokensPath } from '../../identity/token-calls.ts';
import { etcdConfig } from './etcd-config.ts';

const etcd = useEtcd();
afterEach(stopAll);

const servers = '/admin/api/mcp/servers';

/** Two registries on one etcd, each with tokens of its own in files. */
async function startTwo(): Promise<[TestSms, TestSms]> {
  const config = etcdConfig(etcd().members);
  return [await startTestSms({ etcd: config }), await startTestSms({ etcd: config })];
}

describe('two registries on one etcd', () => {
  it('changes through one are watched through the other, including users and tokens [etcd.sms]', async () => {
    const [a, b] = await startTwo();
    const cache = new RegistryCache({ source: b.source() });
    onStop(() => cache.close());
    cache.start();
    expect(await cache.ready(20_000)).toBe(true);
    const put = await a.http('PUT', `${servers}/fs`, { json: fsRecord });
    expect(put.status).toBe(201);
    await untilRevision(cache, Number(put.body.mod_revision));
    expect(cache.snapshot()?.records.get('fs')).toMatchObject({ server_id: 'fs' });

    const token = await createToken(a, { name: 'ci', roles: ['admin'] });
    const statusOnB = async () => (await b.http('GET', servers, { token })).status;
    await eventually(async () => (await statusOnB()) === 200, 'the token to be known by the other one');
    expect((await a.http('DELETE', `${tokensPath}/ci`)).status).toBe(200);
    await eventually(async () => (await statusOnB()) === 401, 'the token to be revoked on the other one');
  });

  it('a decision on one resumes the run that waits at the other, and its grant is redeemed once [etcd.sms]', async () => {
    const [a, b] = await startTwo();
    const port = failoverSource([a.source(), b.source()]).approvals('node-1');
    const client = clientOf(port, { fileWithinMs: 20_000 });
    const answering = client.ask(questionOf());
    const [request] = await waiting(b);
    expect((await decide(b, request?.approval_id ?? '', 'allow_once')).status).toBe(200);
    const { decision, grant } = await answering;
    expect(decision).toBe('allow_once');
    // The registry that it waited at is gone: its yes is claimed at the other one.
    await a.sms.close();
    expect(await grant?.redeem(boundCall, { path: '/data/x', content: 'a line' })).toBeNull();
    expect(await grant?.redeem(boundCall, { path: '/data/x', content: 'another' })).not.toBeNull();
  });

  it('has no backup route', async () => {
    const [a] = await startTwo();
    const answer = await a.http('POST', '/admin/api/mcp/backup');
    expect(answer).toMatchObject({ status: 409, body: { type: 'urn:spear:problem:kept-elsewhere' } });
  });
});

describe('a follower of several registries', () => {
  it('resumes at its revision when its registry is killed, without a gap or a duplicate [etcd.failover]', async () => {
    const { prefix, endpoints } = etcdConfig(etcd().members);
    const store = `etcd://${endpoints.map((url) => new URL(url).host).join(',')}/${prefix}`;
    const directory = temporaryDirectory();
    const start = (name: string) =>
      spawnSms(
        ['--store', store, '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--insecure-no-auth'].concat([
          '--data',
          join(directory, name, 'x.db'),
        ]),
        { PATH: process.env.PATH, HOME: directory },
      );
    const [a, b] = [await start('a'), await start('b')];
    const write = async (n: number) => {
      const json = { ...fsRecord, display_name: `${n}` };
      const body = JSON.stringify(json);
      const answer = await fetch(`${b.http}${servers}/fs`, {
        method: 'PUT',
        body,
        headers: { 'content-type': 'application/json' },
      });
      expect(answer.ok).toBe(true);
      return Number(((await answer.json()) as { mod_revision: number }).mod_revision);
    };
    const source = failoverSource([createRemoteSource({ address: a.grpc }), createRemoteSource({ address: b.grpc })]);
    onStop(() => source.close());
    const { revision } = await source.list(AbortSignal.timeout(45_000));
    const told: { name: string | undefined; prevRevision: number; revision: number }[] = [];
    const stop = new AbortController();
    const following = (async () => {
      for await (const item of source.watch(revision, stop.signal)) {
        if ('heartbeat' in item) continue;
        told.push({ name: item.upserts[0]?.display_name, prevRevision: item.prevRevision, revision: item.revision });
      }
    })().catch(() => {});
    const revisions: number[] = [];
    for (let n = 0; n < 30; n++) {
      revisions.push(await write(n));
      if (n === 10) {
        await until(() => told.length > 0, 'the first event');
        await a.end('SIGKILL');
      }
    }
    await until(() => told.at(-1)?.revision === revisions.at(-1), 'the last event');
    stop.abort();
    await following;
    expect(told.map(({ prevRevision }) => prevRevision)).toEqual(
      [revision, ...told.map((one) => one.revision)].slice(0, -1),
    );
    // A reconnecting watcher receives missed changes as one event.
    expect(told.at(-1)?.name).toBe('29');
    for (const one of told) expect(revisions).toContain(one.revision);
  });

  it('spear uses the next one if the first does not listen [etcd.failover]', async () => {
    const [, b] = await startTwo();
    const [closed] = await freePorts(1);
    const client = new ApiClient(
      findRegistryAdmin(
        { sms: `http://127.0.0.1:${closed},${b.sms.http}`, token: b.adminToken },
        { HOME: temporaryDirectory() },
      ),
      registryPeer,
    );
    const put = await client.request('PUT', `${servers}/fs`, {
      body: JSON.stringify(fsRecord),
      contentType: 'application/json',
    });
    expect(put.status).toBe(201);
    expect((await client.request('GET', `${servers}/fs`)).status).toBe(200);
  });

  it('a registry that loses etcd ends its watches and rejects lists [etcd.cut]', async () => {
    const { members } = etcd();
    const a = await startTestSms({ etcd: etcdConfig(members), limit: { heartbeat_ms: 200 } });
    const source = a.source();
    const { revision } = await source.list(AbortSignal.timeout(45_000));
    let ended: unknown = null;
    void (async () => {
      for await (const _ of source.watch(revision, new AbortController().signal));
    })().catch((error: unknown) => {
      ended = error;
    });
    const [, second, third] = members;
    second?.pause();
    third?.pause();
    try {
      await until(() => ended !== null, 'the watch to end');
      expect(String(ended)).toContain('may be out of date');
      await expect(source.list(AbortSignal.timeout(45_000))).rejects.toThrow('may be out of date');
      expect(await a.http('GET', '/readyz', { token: null })).toMatchObject({ status: 503 });
      const put = await a.http('PUT', `${servers}/fs`, { json: fsRecord });
      expect(put).toMatchObject({ status: 503, body: { type: 'urn:spear:problem:not-current' } });
    } finally {
      second?.resume();
      third?.resume();
    }
    await eventually(
      async () => (await source.list(AbortSignal.timeout(45_000))).revision >= revision,
      'the registry to serve again',
    );
  });
});
