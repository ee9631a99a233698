import { writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { RegistryCache, type RegistryCacheOptions } from '../../src/registry-client/cache.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { restoreSqliteStore } from '../../src/server/store/sqlite-backup.ts';
import { untilRevision, untilStatus } from '../registry/cache-events.ts';
import { makeLargeRegistry } from '../registry/large-registry.ts';
import { fsRecord, onStop, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../registry/running-sms.ts';
import { selfSigned } from '../support/certificates.ts';
import { FakeOldSms } from './fake-old-sms.ts';

afterEach(stopAll);

const soon = { backoff: { firstMs: 20, maxMs: 100 } };
const signal = () => AbortSignal.timeout(45_000);

function startCache(options: RegistryCacheOptions): RegistryCache {
  const cache = new RegistryCache({ timing: soon, ...options });
  onStop(() => cache.close());
  cache.start();
  return cache;
}

const put = (sms: TestSms, id: string, fields: object = {}) =>
  sms.http('PUT', `/admin/api/mcp/servers/${id}`, { json: { ...fsRecord, ...fields, server_id: id } });

describe('a cache over the network', () => {
  it('lists, then follows every change with its record', async () => {
    const sms = await startTestSms();
    await put(sms, 'a', { tags: ['one'], sandbox: { mode: 'required' } });
    const cache = startCache({ source: sms.source() });
    expect(await cache.ready(10_000)).toBe(true);
    expect(cache.snapshot()?.records.get('a')).toMatchObject({
      tags: ['one'],
      sandbox: { mode: 'required', network: 'allow' },
      stdio: fsRecord.stdio,
      mod_revision: 1,
    });
    await put(sms, 'a', { tags: ['two'] });
    await put(sms, 'b');
    await sms.http('DELETE', '/admin/api/mcp/servers/b');
    await untilRevision(cache, 4);
    expect([...(cache.snapshot()?.records.values() ?? [])]).toMatchObject([
      { server_id: 'a', tags: ['two'], sandbox: null },
    ]);
    expect(cache.status()).toMatchObject({ state: 'ready', lastError: null });
  });

  it('keeps its snapshot while the registry is down, and catches up when it is back', async () => {
    const sms = await startTestSms();
    await put(sms, 'a');
    const cache = startCache({ source: sms.source() });
    await untilRevision(cache, 1);
    const degraded = untilStatus(cache, ({ state }) => state === 'degraded');
    await sms.sms.close();
    expect(await degraded).toMatchObject({ revision: 1, lastError: expect.stringContaining('the registry at') });
    expect(cache.view()).toMatchObject({ stale: false });
    await sms.restart();
    await put(sms, 'b');
    await untilRevision(cache, 2);
    await untilStatus(cache, ({ state }) => state === 'ready');
    expect([...(cache.snapshot()?.records.keys() ?? [])].sort()).toEqual(['a', 'b']);
  });

  it('refuses its snapshot when it is too old', async () => {
    const sms = await startTestSms({ limit: { heartbeat_ms: 100 } });
    await put(sms, 'a');
    const cache = startCache({ source: sms.source(), maxStalenessMs: 1_500 });
    await untilRevision(cache, 1);
    expect(cache.view()).toMatchObject({ stale: false });
    const stale = untilStatus(cache, ({ state }) => state === 'stale');
    await sms.sms.close();
    await stale;
    expect(cache.view()).toMatchObject({ stale: true });
  });

  it('that missed a compaction resyncs', async () => {
    const sms = await startTestSms({ limit: { kept_changes: 2 } });
    await put(sms, 'a');
    await put(sms, 'b');
    const asleep = sms.source();
    const { revision } = await asleep.list(signal());
    for (const id of ['c', 'd', 'e', 'f']) await put(sms, id);
    await sms.http('DELETE', '/admin/api/mcp/servers/a');
    await expect(asleep.watch(revision, signal())[Symbol.asyncIterator]().next()).rejects.toThrow(
      'failed_precondition',
    );
    // The same through a cache whose first list is from before the sleep.
    let lists = 0;
    const source = sms.source();
    const cache = startCache({
      source: {
        get canWatchRecords() {
          return source.canWatchRecords;
        },
        list: async (given) => {
          const listing = await source.list(given);
          lists += 1;
          return lists > 1 ? listing : { ...listing, revision: 2, records: listing.records.slice(0, 1) };
        },
        watch: (since, given) => source.watch(since, given),
      },
    });
    await untilRevision(cache, 7);
    expect(lists).toBe(2);
    expect([...(cache.snapshot()?.records.keys() ?? [])].sort()).toEqual(['b', 'c', 'd', 'e', 'f']);
  });

  it('treats a restored registry as a different one, whatever its revision', async () => {
    const sms = await startTestSms();
    await put(sms, 'a');
    const backup = `${temporaryDirectory()}/backup.db`;
    const response = await fetch(`${sms.sms.http}/admin/api/mcp/backup`, {
      method: 'POST',
      headers: { authorization: `Bearer ${sms.adminToken}` },
    });
    writeFileSync(backup, Buffer.from(await response.arrayBuffer()));
    await put(sms, 'b');
    const cache = startCache({ source: sms.source() });
    await untilRevision(cache, 2);
    const before = cache.status().epoch;
    await sms.sms.close();
    await restoreSqliteStore(backup, sms.config.files.data);
    const replaced = untilStatus(cache, ({ epoch }) => epoch !== before);
    await sms.restart();
    const { revision } = await replaced;
    expect(revision).toBeGreaterThan(2);
    expect([...(cache.snapshot()?.records.keys() ?? [])]).toEqual(['a']);
    await put(sms, 'c');
    await untilRevision(cache, (revision ?? 0) + 1);
    expect([...(cache.snapshot()?.records.keys() ?? [])].sort()).toEqual(['a', 'c']);
  });
});

describe('a registry without the fields of this project', () => {
  it('is followed by a list at every event', async () => {
    const old = await new FakeOldSms().start();
    const stdio = { command: 'x' };
    old.upsert({ server_id: 'a', transport: 'MCP_TRANSPORT_STDIO', stdio, allowed_tools: ['*'] });
    const source = createRemoteSource({ address: old.address });
    onStop(() => source.close());
    const cache = startCache({ source });
    await untilRevision(cache, 1);
    expect(source.canWatchRecords).toBe(false);
    expect(cache.snapshot()).toMatchObject({ epoch: '' });
    expect(cache.snapshot()?.records.get('a')).toMatchObject({ tool_prefix: 'a', protocol: 'auto', sandbox: null });
    await untilWatched(old);
    old.upsert({ server_id: 'a', display_name: 'A', transport: 'MCP_TRANSPORT_STDIO', stdio });
    await untilRevision(cache, 2);
    expect(cache.snapshot()?.records.get('a')).toMatchObject({ display_name: 'A', allowed_tools: [] });
    const { lists } = old;
    old.remove('a');
    await untilRevision(cache, 3);
    expect(cache.snapshot()?.records.size).toBe(0);
    expect(old.lists).toBe(lists + 1);
    expect(cache.status()).toMatchObject({ state: 'ready' });
  });

  it('with invalid records loses only those', async () => {
    const old = await new FakeOldSms().start();
    old.upsert({ server_id: 'good', transport: 'MCP_TRANSPORT_STDIO', stdio: { command: 'x' } });
    old.upsert({ server_id: 'bad', transport: 'MCP_TRANSPORT_STREAMABLE_HTTP', http: { url: 'gopher://x' } });
    const invalid: string[] = [];
    const source = createRemoteSource({
      address: old.address,
      onInvalidRecord: (id, { path }) => invalid.push(`${id}: ${path}`),
    });
    onStop(() => source.close());
    const { records: servers } = await source.list(signal());
    expect(servers.map(({ server_id }) => server_id)).toEqual(['good']);
    expect(invalid).toEqual(['bad: http.url']);
  });

  /** The fake tells watchers and keeps nothing for those that come later. */
  async function untilWatched(old: FakeOldSms): Promise<void> {
    while (old.watchers === 0) await new Promise((resolve) => setImmediate(resolve));
  }
});

describe('the connection to the registry', () => {
  it('is refused without a valid token, and the message does not repeat the token', async () => {
    const sms = await startTestSms();
    const complaint = String(await sms.source('a-wrong-token-a-wrong-token').list(signal()).catch(String));
    expect(complaint).toContain('unauthenticated');
    expect(complaint).not.toContain('a-wrong-token');
  });

  it('uses TLS for https URLs and trusts only the given certificates', async () => {
    const directory = temporaryDirectory();
    const { cert, key } = selfSigned();
    writeFileSync(`${directory}/cert.pem`, cert);
    writeFileSync(`${directory}/key.pem`, key, { mode: 0o600 });
    const sms = await startTestSms({ tls: { cert: `${directory}/cert.pem`, key: `${directory}/key.pem` } });
    const port = sms.sms.grpc.split(':').at(-1);
    const open = (address: string, ca: string | null) => {
      const source = createRemoteSource({ address, token: sms.nodeToken, ca });
      onStop(() => source.close());
      return source.list(signal());
    };
    expect(await open(`https://localhost:${port}`, cert)).toMatchObject({ revision: 0, records: [] });
    await expect(open(`https://localhost:${port}`, null)).rejects.toThrow(/self[- ]signed/);
    await expect(open(`http://localhost:${port}`, cert)).rejects.toThrow();
  });

  it('that uses no TLS with a TLS server is explained', async () => {
    const sms = await startTestSms();
    const source = createRemoteSource({ address: `https://${sms.sms.grpc}`, token: 'never sent in clear' });
    onStop(() => source.close());
    await expect(source.list(signal())).rejects.toThrow('use http://HOST:PORT');
  });

  it('to an unreachable address fails with an error that names it', async () => {
    const source = createRemoteSource({ address: '127.0.0.1:1' });
    onStop(() => source.close());
    await expect(source.list(signal())).rejects.toThrow('the registry at http://127.0.0.1:1');
    expect(() => createRemoteSource({ address: 'ftp://x' })).toThrow('the address of the registry: expected HOST:PORT');
  });

  it('yields to other work while a large list is read', async () => {
    const data = `${temporaryDirectory()}/registry.db`;
    await makeLargeRegistry(data, 2_000);
    const sms = await startTestSms({}, data);
    const source = sms.source();
    let turns = 0;
    let reading = true;
    const count = () => {
      turns += 1;
      if (reading) setImmediate(count);
    };
    const listing = source.list(signal());
    setImmediate(count);
    const first = await listing;
    reading = false;
    expect(first.records).toHaveLength(2_000);
    expect(turns).toBeGreaterThan(8);
    // What is known already is not read again.
    const again = await source.list(signal());
    expect(again.records[7]).toBe(first.records[7]);
  });
});
