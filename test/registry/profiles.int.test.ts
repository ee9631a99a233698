import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterEach, describe, expect, it } from 'vitest';
import { McpProfileService } from '../../src/generated/proto/sms/mcp_profile_pb.ts';
import { isHeartbeat } from '../../src/registry-client/source.ts';
import { type McpProfile, parseProfile } from '../../src/server/records/profile.ts';
import { profileToWire, wireToProfileInput } from '../../src/server/records/wire.ts';
import { linesOf } from '../server/audit/audit-samples.ts';
import { sampleProfile } from '../server/records/profile-samples.ts';
import { startTestSms, stopAll, type TestSms, temporaryDirectory } from './running-sms.ts';

afterEach(stopAll);

const PROFILES = '/admin/api/mcp/profiles';
const review = { name: 'review', server_ids: ['git'], server_tags: ['search'], allowed_tools: { git: ['get_*'] } };
const signal = () => AbortSignal.timeout(45_000);

function grpc({ sms }: TestSms, token: string) {
  const transport = createGrpcTransport({
    baseUrl: `http://${sms.grpc}`,
    interceptors: [
      (next) => (request) => {
        request.header.set('authorization', `Bearer ${token}`);
        return next(request);
      },
    ],
  });
  return createClient(McpProfileService, transport);
}

describe('a profile', () => {
  it('is completed with its defaults, and named where it is wrong', () => {
    expect(sampleProfile('p')).toEqual({
      name: 'p',
      description: '',
      server_ids: [],
      server_tags: [],
      tool_allowlist: null,
      tool_denylist: [],
      allowed_tools: {},
      updated_at_ms: 0,
      mod_revision: 0,
    });
    const wrong = parseProfile(
      { name: 'a b', server_ids: ['ok', ''], allowed_tools: { 'x y': [] }, more: 1 },
      { strict: true },
    );
    expect(wrong.ok ? [] : wrong.issues.map(({ path }) => path)).toEqual([
      'name',
      'server_ids[1]',
      'allowed_tools["x y"]',
      'more',
    ]);
  });

  it('that is probably a mistake is doubted', () => {
    const doubts = (input: object) => {
      const parsed = parseProfile({ name: 'p', ...input }, { strict: false });
      return parsed.ok ? parsed.warnings.map(({ path }) => path) : [];
    };
    expect(doubts({})).toEqual(['server_ids']);
    expect(doubts({ server_ids: ['a'], tool_allowlist: [], allowed_tools: { b: ['*'] } })).toEqual([
      'tool_allowlist',
      'allowed_tools',
    ]);
    expect(doubts({ server_tags: ['a'], allowed_tools: { b: ['*'] } })).toEqual([]);
  });

  it.each<[string, Partial<McpProfile>]>([
    ['whole', { ...review, description: 'd', tool_allowlist: ['a'], tool_denylist: ['b'], mod_revision: 3 }],
    ['that allows nothing', { tool_allowlist: [], allowed_tools: { git: [] } }],
    ['that narrows nothing', { tool_allowlist: null }],
  ])('%s comes through the wire as it is', (_, fields) => {
    const profile = sampleProfile('p', { ...fields, name: 'p' });
    expect(parseProfile(wireToProfileInput(profileToWire(profile)), { strict: true })).toMatchObject({
      record: profile,
    });
  });
});

describe('the admin API', () => {
  it('creates, shows, replaces and removes profiles [sms.profiles]', async () => {
    const sms = await startTestSms();
    const created = await sms.http('POST', PROFILES, { json: review });
    expect(created.status).toBe(201);
    expect(created.headers.get('location')).toBe(`${PROFILES}/review`);
    expect(created.body).toMatchObject({ ...review, origin: 'api', mod_revision: 1, changed: true, warnings: [] });
    expect((await sms.http('POST', PROFILES, { json: review })).body.type).toBe('urn:spear:problem:profile-exists');
    const shown = await sms.http('GET', `${PROFILES}/review`);
    const again = await sms.http('PUT', `${PROFILES}/review`, { json: shown.body });
    expect(again.body).toMatchObject({ changed: false, mod_revision: 1 });
    const changed = await sms.http('PUT', `${PROFILES}/review`, {
      json: { ...review, server_ids: [] },
      headers: { 'if-match': '"1"' },
    });
    expect(changed.body).toMatchObject({ changed: true, mod_revision: 2, server_ids: [] });
    const late = await sms.http('PUT', `${PROFILES}/review`, { json: review, headers: { 'if-match': '"1"' } });
    expect(late.status).toBe(412);
    expect((await sms.http('GET', PROFILES)).body).toMatchObject({ revision: 2, profiles: [{ name: 'review' }] });
    expect((await sms.http('DELETE', `${PROFILES}/review`)).body).toEqual({ revision: 3 });
    for (const method of ['GET', 'DELETE']) {
      const gone = await sms.http(method, `${PROFILES}/review`);
      expect([gone.status, gone.body.type]).toEqual([404, 'urn:spear:problem:no-such-profile']);
    }
  });

  it('names what is wrong, and lets nodes read and nothing else [sms.profiles]', async () => {
    const sms = await startTestSms();
    const wrong = await sms.http('POST', PROFILES, { json: { name: 'p', server_ids: 'git' } });
    expect([wrong.status, wrong.body.errors]).toEqual([400, [{ field: 'server_ids', detail: 'must be a list' }]]);
    const { nodeToken: token } = sms;
    expect((await sms.http('GET', PROFILES, { token })).status).toBe(403);
    await sms.http('POST', PROFILES, { json: review });
    const read = await sms.http('GET', '/api/v1/mcp/profiles', { token });
    expect(read.body).toMatchObject({ revision: 1, profiles: [review] });
    const tag = String(read.headers.get('etag'));
    expect((await sms.http('GET', '/api/v1/mcp/profiles', { token, headers: { 'if-none-match': tag } })).status).toBe(
      304,
    );
  });

  it('puts every change of a profile into the trail', async () => {
    const sms = await startTestSms();
    await sms.http('POST', PROFILES, { json: review });
    await sms.http('PUT', `${PROFILES}/review`, { json: { ...review, server_ids: [] } });
    await sms.http('DELETE', `${PROFILES}/review`);
    await sms.sms.close();
    const lines = linesOf(String(sms.config.audit?.file)).filter(({ event }) => event === 'sms.profile_changed');
    expect(lines.map(({ action, profile, fields }) => [action, profile, fields])).toEqual([
      ['create', 'review', []],
      ['update', 'review', ['server_ids']],
      ['delete', 'review', []],
    ]);
  });
});

describe('gRPC', () => {
  it('lists, watches, writes and removes profiles, each role what it may [sms.profiles]', async () => {
    const sms = await startTestSms();
    const admin = grpc(sms, sms.adminToken);
    const node = grpc(sms, sms.nodeToken);
    const profile = profileToWire(sampleProfile('review', review));
    await expect(node.upsertMcpProfile({ profile })).rejects.toThrow('permission_denied');
    expect((await admin.upsertMcpProfile({ profile })).revision).toBe(1n);
    expect((await admin.upsertMcpProfile({ profile })).revision).toBe(1n);
    await expect(admin.upsertMcpProfile({ profile: { ...profile, name: 'a b' } })).rejects.toThrow('name');
    expect(await node.listMcpProfiles({})).toMatchObject({ revision: 1n, profiles: [{ name: 'review' }] });
    const watch = sms.source().profiles.watch(0, signal())[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ prevRevision: 0, revision: 1, upserts: [review] });
    expect((await admin.deleteMcpProfile({ name: 'review' })).revision).toBe(2n);
    expect((await watch.next()).value).toMatchObject({ prevRevision: 1, revision: 2, deletes: ['review'] });
    await expect(admin.deleteMcpProfile({ name: 'review' })).rejects.toThrow('not_found');
    await watch.return?.(undefined);
  });

  it('tells those who watch servers nothing of profiles, and the other way round [sms.kinds]', async () => {
    const sms = await startTestSms();
    const source = sms.source();
    const servers = source.watch(0, signal())[Symbol.asyncIterator]();
    const profiles = source.profiles.watch(0, signal())[Symbol.asyncIterator]();
    for (const watch of [servers, profiles]) {
      const first = (await watch.next()).value;
      expect(first !== undefined && isHeartbeat(first) && first.revision).toBe(0);
    }
    for (const name of ['a', 'b', 'c']) await sms.http('POST', PROFILES, { json: { name } });
    await sms.http('POST', '/admin/api/mcp/servers', {
      json: { server_id: 'git', transport: 'stdio', stdio: { command: 'x' } },
    });
    expect((await servers.next()).value).toMatchObject({
      prevRevision: 0,
      revision: 1,
      upserts: [{ server_id: 'git' }],
    });
    for (const revision of [1, 2, 3]) expect((await profiles.next()).value).toMatchObject({ revision });
    await Promise.all([servers.return?.(undefined), profiles.return?.(undefined)]);
  });

  it('keeps profiles and their revisions over a restart [sms.profiles]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', PROFILES, { json: review });
    await sms.restart();
    const listing = await sms.source().profiles.list(signal());
    expect(listing).toMatchObject({ revision: 1, records: [review] });
  });
});

describe('the directory', () => {
  it('has profiles in a folder of its own, which need not be there [sms.profiles]', async () => {
    const registryDir = temporaryDirectory();
    const sms = await startTestSms({ registryDir });
    const names = async () => {
      await sms.sms.reload();
      return (await sms.source().profiles.list(signal())).records.map(({ name }) => name);
    };
    expect(await names()).toEqual([]);
    const folder = join(registryDir, 'profiles');
    mkdirSync(folder);
    writeFileSync(join(folder, 'review.toml'), 'name = "review"\nserver_ids = ["git"]\n');
    writeFileSync(join(folder, 'ops.json'), '{"name":"ops","server_tags":["ops"]}');
    expect(await names()).toEqual(['ops', 'review']);
    writeFileSync(join(folder, 'review.toml'), 'name = "review"\nserver_ids = "git"\n');
    const broken = await sms.http('POST', '/admin/api/mcp/reload');
    expect(broken.body).toMatchObject({
      outcome: 'applied',
      profiles: { outcome: 'applied', problems: [{ file: 'review.toml', line: 2, field: 'server_ids' }] },
    });
    writeFileSync(join(folder, 'review.toml'), 'name = "review"\n');
    rmSync(join(folder, 'ops.json'));
    expect(await names()).toEqual(['review']);
    rmSync(folder, { recursive: true });
    const lost = await sms.http('POST', '/admin/api/mcp/reload');
    expect([lost.status, lost.body.profiles]).toMatchObject([422, { outcome: 'refused' }]);
    expect(await names()).toEqual(['review']);
  });
});
