import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { afterEach, describe, expect, it } from 'vitest';
import { McpRegistryService } from '../../src/generated/proto/sms/mcp_registry_pb.ts';
import { type AuditEvent, ConfigError, type McpOptions, openMcp, ToolEvents } from '../../src/index.ts';
import { KindCache } from '../../src/registry-client/kind-cache.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { keepSnapshot, readSnapshotFile, snapshotPath } from '../../src/registry-client/snapshot-file.ts';
import { profileKind } from '../../src/server/records/profile.ts';
import { fixture, folder } from '../library/fixtures.ts';
import { onStop, startTestSms, stopAll, temporaryDirectory } from '../registry/running-sms.ts';

afterEach(stopAll);

const record = (id: string) => ({
  server_id: id,
  transport: 'stdio',
  stdio: { command: process.execPath, args: [fixture('mcp-servers/tiny.mjs')] },
  allowed_tools: ['*'],
});
const task = { name: 'profiled', config: { 'mcp.enabled': true, 'mcp.profile': 'review' } };
const notices: string[] = [];
const open = (options: Omit<McpOptions, 'task'>) => {
  notices.length = 0;
  return openMcp({ task, stateDir: folder(), onNotice: (text) => void notices.push(text), ...options });
};

/** A directory of two servers, and a folder of profiles in it. */
function directory(profiles: Readonly<Record<string, string>>): string {
  const path = folder({ 'a.json': record('a'), 'b.json': record('b') });
  mkdirSync(join(path, 'profiles'));
  for (const [name, text] of Object.entries(profiles)) writeFileSync(join(path, 'profiles', name), text);
  return path;
}

describe('a task that names a profile', () => {
  it('takes it from the folder of a directory [policy.profile]', async () => {
    await using mcp = await open({ directory: directory({ 'review.toml': 'name = "review"\nserver_ids = ["b"]' }) });
    expect(mcp.effective).toEqual({ serverIds: ['b'], exclusions: [] });
  });

  it('gets no tools without its profile, and a notice says why [policy.profile]', async () => {
    await using mcp = await open({ directory: directory({ 'other.toml': 'name = "other"', 'bad.toml': 'nam = "x"' }) });
    expect(mcp.effective.serverIds).toEqual([]);
    expect(notices).toEqual([
      expect.stringContaining('profiles/bad.toml: name is required'),
      expect.stringContaining('profiles/other.toml: server_ids is empty'),
      `no MCP tools for the model: the task's mcp.profile "review" is not in the registry, so everything is denied`,
    ]);
  });

  it('follows it in an SMS [policy.profile]', async () => {
    const sms = await startTestSms();
    for (const id of ['a', 'b']) await sms.http('POST', '/admin/api/mcp/servers', { json: record(id) });
    const profile = { name: 'review', server_ids: ['a'] };
    await sms.http('POST', '/admin/api/mcp/profiles', { json: profile });
    const from = { address: sms.sms.grpc, token: sms.nodeToken };
    await using mcp = await open({ sms: from, stdio: 'allow' });
    expect(mcp.effective.serverIds).toEqual(['a']);
    // The audit log of a run has the profiles at its start and at every change.
    const changed = Promise.withResolvers<void>();
    const audited: AuditEvent[] = [];
    const audit = {
      write: (_: string, event: AuditEvent) => {
        audited.push(event);
        if (event.event === 'profiles.applied' && event.revision === 2) changed.resolve();
      },
    };
    const observers = { run: 'run-1', audit, events: new ToolEvents(), approve: null, elicit: null, decidedBy: 'test' };
    const { guest, close } = mcp.forRun({ ...observers, approvalTimeoutMs: 1_000 });
    expect([guest.open('a'), guest.open('b')]).toEqual([null, 'EACCES']);
    await sms.http('PUT', '/admin/api/mcp/profiles/review', { json: { server_ids: ['b'] } });
    await changed.promise;
    expect([guest.open('a'), guest.open('b')]).toEqual(['EACCES', null]);
    expect(audited.filter(({ event }) => event === 'profiles.applied')).toMatchObject([
      { revision: 1, upserted: ['review'] },
      { revision: 2, upserted: ['review'] },
    ]);
    close();
  });

  it('is refused by a registry that has no profiles, or gets nothing from it where it may go on [policy.profile]', async () => {
    const address = await fakeOldRegistry();
    const from = { sms: { address, token: 'x'.repeat(16) }, firstSnapshotMs: 2_000 };
    await expect(open(from)).rejects.toThrow(ConfigError);
    await expect(open(from)).rejects.toThrow(/the registry returns no profiles, and the task names one.*unimplemented/);
    await using mcp = await open({ ...from, required: false });
    expect(mcp.effective.serverIds).toEqual([]);
    expect(notices).toContainEqual(expect.stringContaining('the task has no tools until the profiles arrive'));
  });
});

it('profiles are kept on disk for runs that come while the registry is away [policy.profile]', async () => {
  const sms = await startTestSms();
  await sms.http('POST', '/admin/api/mcp/profiles', { json: { name: 'review', server_ids: ['a'] } });
  const address = `http://${sms.sms.grpc}`;
  const path = snapshotPath(temporaryDirectory(), address, '-profiles');
  const source = createRemoteSource({ address, token: sms.nodeToken });
  const cache = new KindCache({ kind: profileKind, source: source.profiles });
  const stop = keepSnapshot(cache, { path, source: address, onFailure: (error) => expect(error).toBeNull() });
  cache.start();
  expect(await cache.ready(20_000)).toBe(true);
  await stop();
  await cache.close();
  source.close();
  const saved = await readSnapshotFile(path, address, profileKind);
  expect([...(saved?.snapshot.records.keys() ?? [])]).toEqual(['review']);
  await sms.sms.close();
  const later = createRemoteSource({ address, token: sms.nodeToken });
  const offline = new KindCache({ kind: profileKind, source: later.profiles, saved });
  offline.start();
  expect(await offline.ready(200)).toBe(false);
  expect(offline.useSaved()).not.toBeNull();
  expect(offline.snapshot()?.records.get('review')).toMatchObject({ server_ids: ['a'] });
  await offline.close();
  later.close();
});

/** What an SMS from before there were profiles answers: servers, and UNIMPLEMENTED to the rest. */
async function fakeOldRegistry(): Promise<string> {
  const handler = connectNodeAdapter({
    routes: (router) =>
      router.service(McpRegistryService, {
        listMcpServers: () => ({ revision: 0n, servers: [], epoch: 'old' }),
        async *watchMcpServers(_, { signal }) {
          yield { event: { revision: 0n, epoch: 'old', heartbeat: true } };
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        },
      }),
  });
  const server = createServer(handler);
  const sessions = new Set<{ destroy(): void }>();
  server.on('session', (session) => sessions.add(session));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onStop(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
