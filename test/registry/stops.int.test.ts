import { afterEach, describe, expect, it } from 'vitest';
import { decideCall } from '../../src/agent/policy/walk.ts';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { KindCache } from '../../src/registry-client/kind-cache.ts';
import { stopLimits } from '../../src/server/records/stop.ts';
import { stopKind } from '../../src/server/records/stop-kind.ts';
import { taskWith } from '../agent/policy/policy-samples.ts';
import { linesOf } from '../server/audit/audit-samples.ts';
import { fsRecord, onStop, startTestSms, stopAll, type TestSms } from './running-sms.ts';

const STOPS = '/admin/api/stops';
const reason = 'incident 12';

afterEach(stopAll);

/** A token with a name, as its text. */
async function tokenOf(sms: TestSms, name: string, roles: readonly string[], namespace: string): Promise<string> {
  const { body } = await sms.http('POST', '/admin/api/tokens', { json: { name, roles, namespace } });
  return String(body.token);
}

/** What a node has of the registry: the real watch over gRPC, and the gate that every call passes. */
async function follow(sms: TestSms, namespace = 'team-a') {
  const source = sms.source();
  const stops = new KindCache({ kind: stopKind, source: source.stops });
  const cache = new RegistryCache({ source, stops });
  onStop(() => cache.close());
  const task = { ...taskWith({ defaultServerIds: ['fs'] }), namespace, name: 'report' };
  const decide = () => decideCall(cache.view(), task, null, 'fs', 'read_file');
  const becomes = (wanted: boolean) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (decide().allowed !== wanted) return;
        off();
        resolve();
      };
      const off = cache.onPolicyChange(look);
      look();
    });
  cache.start();
  expect(await cache.ready(10_000)).toBe(true);
  return { cache, decide, becomes, source };
}

describe('stops', () => {
  it('refuse calls on every node that follows the registry until they are lifted [stop.calls] [stop.lift]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    const [stopped, other] = [await follow(sms), await follow(sms, 'team-b')];
    expect([stopped.decide().allowed, other.decide().allowed]).toEqual([true, true]);
    const created = await sms.http('POST', STOPS, { json: { scope: 'namespace', name: 'team-a', reason } });
    expect(created.status).toBe(201);
    await stopped.becomes(false);
    expect(stopped.decide()).toMatchObject({ reason: 'stopped', detail: expect.stringContaining(reason) });
    expect(other.decide().allowed).toBe(true);
    const id = String(created.body.stop_id);
    expect((await sms.http('DELETE', `${STOPS}/${id}`)).status).toBe(200);
    await stopped.becomes(true);
    expect((await sms.http('DELETE', `${STOPS}/${id}`)).body.type).toBe('urn:spear:problem:no-such-stop');
  });

  it('survive a restart of the registry and are part of the first snapshot [stop.stored]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    await sms.http('POST', STOPS, { json: { scope: 'all', reason } });
    await sms.restart();
    expect((await follow(sms)).decide()).toMatchObject({ allowed: false, reason: 'stopped' });
  });

  it('are in the audit log: who stopped, why, and who lifted [stop.audit]', async () => {
    const sms = await startTestSms();
    const { body } = await sms.http('POST', STOPS, { json: { scope: 'server', name: 'fs', reason } });
    expect(body.warnings).toEqual(['the registry has no server "fs"']);
    await sms.http('DELETE', `${STOPS}/${body.stop_id}`);
    await sms.sms.close();
    const stop = { scope: 'server', name: 'fs', effect: 'stop', reason };
    const about = { stop_id: body.stop_id, actor: 'bootstrap-admin' };
    const lines = linesOf(String(sms.config.audit?.file)).filter(({ event }) => event === 'sms.stop_changed');
    expect(lines).toMatchObject([
      { ...about, action: 'create', before: null, after: stop },
      { ...about, action: 'delete', before: stop, after: null },
    ]);
  });

  it('lists the nodes that did not confirm, until they report the revision of the stop [stop.confirm]', async () => {
    const sms = await startTestSms();
    const { source, cache } = await follow(sms);
    const report = (stopsRevision: number) =>
      source.report(
        {
          ...{ nodeId: 'worker-1:a', registryState: 'ready', epoch: '', snapshotRevision: 0, servers: [] },
          ...{ stopsEpoch: cache.stops?.status().epoch ?? '', stopsRevision },
        },
        AbortSignal.timeout(5_000),
      );
    await report(0);
    const { body } = await sms.http('POST', STOPS, { json: { scope: 'all', reason } });
    expect(body).toMatchObject({ confirmed: 0, unconfirmed: [{ node_id: 'worker-1:a' }] });
    await report(Number(body.mod_revision));
    expect((await sms.http('GET', `${STOPS}/${body.stop_id}`)).body).toMatchObject({ confirmed: 1, unconfirmed: [] });
  });

  it('are not awaited from nodes of other namespaces, which do not receive them [stop.confirm]', async () => {
    const sms = await startTestSms();
    const source = sms.source(await tokenOf(sms, 'node-b', ['node'], 'team-b'));
    const report = {
      nodeId: 'worker-2:b',
      registryState: 'ready',
      epoch: '',
      snapshotRevision: 0,
      servers: [],
    } as const;
    await source.report(report, AbortSignal.timeout(5_000));
    const stop = async (name: string) =>
      (await sms.http('POST', STOPS, { json: { scope: 'namespace', name, reason } })).body;
    expect(await stop('team-a')).toMatchObject({ confirmed: 0, unconfirmed: [] });
    expect(await stop('team-b')).toMatchObject({ confirmed: 0, unconfirmed: [{ node_id: 'worker-2:b' }] });
  });

  it('are set once: the same stop again returns the active one', async () => {
    const sms = await startTestSms();
    const json = { scope: 'all', reason };
    const [first, second] = [await sms.http('POST', STOPS, { json }), await sms.http('POST', STOPS, { json })];
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.body.stop_id).toBe(first.body.stop_id);
  });

  it('names the invalid field', async () => {
    const sms = await startTestSms();
    const wrong = await sms.http('POST', STOPS, { json: { scope: 'task', name: 'report', reason } });
    expect([wrong.status, wrong.body.errors]).toEqual([
      400,
      [{ field: 'name', detail: 'must be NAMESPACE/NAME of a task' }],
    ]);
    expect((await sms.http('POST', STOPS, { json: { scope: 'all' } })).status).toBe(400);
  });
});

describe('who may stop', () => {
  const ofA = { scope: 'namespace', name: 'team-a', reason };
  it('is an admin, and within a namespace an admin of it [stop.permission]', async () => {
    const sms = await startTestSms();
    const tokens = {
      viewer: await tokenOf(sms, 'viewer', ['viewer'], '*'),
      operator: await tokenOf(sms, 'operator', ['operator'], '*'),
      adminA: await tokenOf(sms, 'admin-a', ['admin'], 'team-a'),
      adminB: await tokenOf(sms, 'admin-b', ['admin'], 'team-b'),
      node: sms.nodeToken,
    };
    const post = async (token: string | null, json: object) => (await sms.http('POST', STOPS, { json, token })).status;
    expect(await post(null, ofA)).toBe(401);
    for (const token of [tokens.viewer, tokens.operator, tokens.adminB, tokens.node]) {
      expect(await post(token, ofA)).toBe(403);
    }
    expect(await post(tokens.adminA, ofA)).toBe(201);
    for (const shared of [{ scope: 'all' }, { scope: 'server', name: 'fs' }]) {
      expect(await post(tokens.adminA, { ...shared, reason })).toBe(403);
    }
    expect(await post(tokens.operator, { scope: 'task', name: 'team-a/report', effect: 'pause', reason })).toBe(201);
    expect(await post(tokens.operator, { scope: 'node', name: 'worker-1', effect: 'drain', reason })).toBe(201);
    expect(await post(tokens.adminA, { scope: 'node', name: 'worker-1', effect: 'drain', reason })).toBe(403);
  });

  it('a stop for all namespaces is not lifted by an admin of one, even in its own namespace [stop.permission]', async () => {
    const sms = await startTestSms();
    const adminA = await tokenOf(sms, 'admin-a', ['admin'], 'team-a');
    const adminB = await tokenOf(sms, 'admin-b', ['admin'], 'team-b');
    const { body } = await sms.http('POST', STOPS, { json: ofA });
    const lift = async (token: string) => (await sms.http('DELETE', `${STOPS}/${body.stop_id}`, { token })).status;
    expect([await lift(adminB), await lift(adminA), await lift(sms.adminToken)]).toEqual([404, 403, 200]);
    const own = await sms.http('POST', STOPS, { json: ofA, token: adminA });
    expect((await sms.http('GET', STOPS, { token: adminB })).body.stops).toEqual([]);
    expect((await sms.http('DELETE', `${STOPS}/${own.body.stop_id}`, { token: adminA })).status).toBe(200);
  });
});

describe('a new stop', () => {
  it('counts for its namespace alone, so that no namespace uses up the stops of an admin [stop.permission]', async () => {
    const sms = await startTestSms();
    const adminA = await tokenOf(sms, 'admin-a', ['admin'], 'team-a');
    const adminB = await tokenOf(sms, 'admin-b', ['admin'], 'team-b');
    const post = (token: string, json: object) => sms.http('POST', STOPS, { json: { ...json, reason }, token });
    const ofTask = (at: number) => ({ scope: 'task', name: `team-a/t${at}` });
    for (let at = 0; at < stopLimits.activePerNamespace; at++) await post(adminA, ofTask(at));
    const over = await post(adminA, ofTask(stopLimits.activePerNamespace));
    expect(over.body).toMatchObject({
      type: 'urn:spear:problem:too-many-stops',
      detail: '100 stops by users of the namespace "team-a" are active, the maximum; lift some',
    });
    expect((await post(adminA, { ...ofTask(0), effect: 'pause' })).status).toBe(201);
    expect((await post(adminB, { scope: 'namespace', name: 'team-b' })).status).toBe(201);
    expect((await post(sms.adminToken, { scope: 'all' })).status).toBe(201);
  });

  it('of an unknown task has a warning', async () => {
    const sms = await startTestSms();
    const { body } = await sms.http('POST', STOPS, { json: { scope: 'task', name: 'team-a/reprot', reason } });
    expect(body.warnings).toEqual([expect.stringContaining('the registry has no task "team-a/reprot"')]);
  });
});

describe('a node without a connection', () => {
  it('applies the stops of a saved snapshot, and refuses calls when it is too old [stop.stored]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    const stop = await sms.http('POST', STOPS, { json: { scope: 'all', reason } });
    const { cache } = await follow(sms);
    const [servers, stops] = [cache.snapshot(), cache.stops?.snapshot() ?? null];
    if (servers === null || stops === null) throw new Error('the node has no snapshot');
    await sms.http('DELETE', `${STOPS}/${stop.body.stop_id}`);
    await sms.sms.close();
    const saved = <R>(snapshot: R) => ({ snapshot, confirmedAtMs: Date.now() - 60_000 });
    const restarted = (maxStalenessMs: number) => {
      const source = sms.source();
      const ofStops = new KindCache({ kind: stopKind, source: source.stops, saved: saved(stops), maxStalenessMs });
      const registry = new RegistryCache({ source, saved: saved(servers), maxStalenessMs, stops: ofStops });
      onStop(() => registry.close());
      return [registry.useSaved(), registry.view()] as const;
    };
    const [age, view] = restarted(120_000);
    expect(age).toBeGreaterThan(0);
    expect([...(view?.stops?.values() ?? [])]).toMatchObject([{ reason }]);
    expect(restarted(30_000)).toEqual([null, null]);
  });
});
