import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { Validity } from '../../../src/server/identity/access.ts';
import { NamedTokens } from '../../../src/server/identity/named-tokens.ts';
import { digestOf, newTokenText } from '../../../src/server/identity/token-text.ts';
import { TokenUses } from '../../../src/server/identity/token-uses.ts';
import type { StoreStamps } from '../../../src/server/records/record-kind.ts';
import { tokenKind, tokenUseKind } from '../../../src/server/records/token.ts';
import { createMemoryStoreOf } from '../../../src/server/store/local-store.ts';
import type { RegistryStore } from '../../../src/server/store/store.ts';
import { fsRecord, startTestSms, stopAll, type TestSms } from '../../registry/running-sms.ts';
import { inEnoughTime } from '../../support/enough-time.ts';
import { linesOf } from '../audit/audit-samples.ts';
import { askForToken, createToken, tokensPath } from './token-calls.ts';

afterEach(stopAll);

const servers = '/admin/api/mcp/servers';
const me = '/admin/api/me';
const hour = 3_600_000;

const listed = async (sms: TestSms) =>
  (await sms.http('GET', tokensPath)).body.tokens as readonly Record<string, unknown>[];
const statusOf = async (sms: TestSms, token: string, path = me) => (await sms.http('GET', path, { token })).status;

describe('a named token', () => {
  it('is shown once, authenticates its user, and is stored only as a digest [people.tokens]', async () => {
    const sms = await startTestSms();
    const token = await createToken(sms, { name: 'ci', roles: ['operator'], description: 'the pipeline' });
    expect(token).toMatch(/^spr_[0-9a-f]{72}$/);
    const who = await sms.http('GET', me, { token });
    expect(who.body).toMatchObject({ name: 'ci', roles: ['operator'], namespace: '*', read_journals: false });
    expect(who.body.may).toEqual(['view', 'submit', 'operate']);
    const answer = await sms.http('GET', tokensPath);
    expect(answer.body.tokens).toMatchObject([
      { name: 'ci', description: 'the pipeline', created_by: 'bootstrap-admin', expires_at_ms: null },
    ]);
    expect((await sms.http('PUT', `${servers}/fs`, { json: fsRecord, token })).status).toBe(201);
    await sms.sms.close();
    const digest = digestOf(token).toString('hex');
    const data = readFileSync(sms.config.files.data).toString('latin1');
    expect(data).toContain(digest);
    for (const text of [data, answer.text, sms.logged.join('\n'), readFileSync(sms.config.audit?.file ?? '', 'utf8')]) {
      expect(text).not.toContain(token);
    }
    expect(answer.text).not.toContain(digest);
  });

  it('is valid after a restart, with its last use [people.tokens]', async () => {
    const sms = await startTestSms();
    const token = await createToken(sms, { name: 'ci', roles: ['viewer'] });
    expect((await listed(sms))[0]).toMatchObject({ last_used_at_ms: null });
    const before = Date.now();
    expect(await statusOf(sms, token)).toBe(200);
    await sms.restart();
    const [shown] = await listed(sms);
    expect(Number(shown?.last_used_at_ms)).toBeGreaterThanOrEqual(before);
    expect(await statusOf(sms, token)).toBe(200);
    // A use does not change the token record.
    expect(shown?.mod_revision).toBe(1);
  });

  it('is revoked at once, for open streams as well [people.revoke]', async () => {
    const sms = await startTestSms();
    const viewer = await createToken(sms, { name: 'screen', roles: ['viewer'] });
    const node = await createToken(sms, { name: 'node-7', roles: ['node'] });
    const events = await fetch(`${sms.sms.http}/admin/api/mcp/events`, {
      headers: { authorization: `Bearer ${viewer}` },
    });
    const watch = sms.source(node).watch(0, AbortSignal.timeout(45_000))[Symbol.asyncIterator]();
    await sms.http('POST', servers, { json: fsRecord });
    expect((await watch.next()).done).toBe(false);
    const broken = watch.next().then(
      () => 'open',
      () => 'broken',
    );
    for (const name of ['screen', 'node-7'])
      expect((await sms.http('DELETE', `${tokensPath}/${name}`)).status).toBe(200);
    await events.text();
    expect(await broken).toBe('broken');
    expect(await statusOf(sms, viewer)).toBe(401);
    await expect(sms.source(node).list(AbortSignal.timeout(45_000))).rejects.toThrow(/unauthenticated/i);
    expect(await listed(sms)).toEqual([]);
    expect((await sms.http('DELETE', `${tokensPath}/screen`)).status).toBe(404);
  });

  it('is rotated: the old and the new text are valid together for the requested time [people.rotate]', async () => {
    const sms = await startTestSms();
    const first = await createToken(sms, { name: 'ci', roles: ['viewer'] });
    const rotate = async (overlap_ms?: number) =>
      sms.http('POST', `${tokensPath}/ci/rotate`, { json: overlap_ms === undefined ? {} : { overlap_ms } });
    const second = String((await rotate(hour)).body.token);
    expect([await statusOf(sms, first), await statusOf(sms, second)]).toEqual([200, 200]);
    const third = String((await rotate(0)).body.token);
    expect([await statusOf(sms, first), await statusOf(sms, second), await statusOf(sms, third)]).toEqual([
      401, 401, 200,
    ]);
    expect(new Set([first, second, third]).size).toBe(3);
    for (const overlap of [-1, 1.5, 1e12, '1h']) {
      const { status, body } = await sms.http('POST', `${tokensPath}/ci/rotate`, { json: { overlap_ms: overlap } });
      expect([status, body.detail]).toEqual([400, expect.stringContaining('overlap_ms')]);
    }
    for (let number = 0; number < 3; number++) expect((await rotate()).status).toBe(200);
    expect((await rotate()).body.type).toBe('urn:spear:problem:too-many-secrets');
    expect((await rotate(0)).status).toBe(200);
  });

  it('expires, for open streams as well [people.expiry]', async () => {
    const sms = await startTestSms();
    await inEnoughTime(1_500, async (ms) => {
      const name = `guest-${ms}`;
      const token = await createToken(sms, { name, roles: ['viewer'], expires_at_ms: Date.now() + ms });
      const headers = { authorization: `Bearer ${token}` };
      const events = await fetch(`${sms.sms.http}/admin/api/mcp/events`, { headers });
      expect(events.status).toBe(200);
      await events.text();
      const late = await sms.http('GET', me, { token });
      expect([late.status, late.body.detail]).toEqual([401, expect.stringContaining('this token has expired')]);
    });
  });

  it('is rejected with an invalid field, which the error names', async () => {
    const sms = await startTestSms();
    const cases: readonly (readonly [object, string])[] = [
      [{ name: 'Ci', roles: ['viewer'] }, 'name'],
      [{ name: 'bootstrap-admin', roles: ['viewer'] }, 'name'],
      [{ name: 'anybody', roles: ['viewer'] }, 'name'],
      [{ name: '-ci', roles: ['viewer'] }, 'name'],
      [{ name: 'a/b', roles: ['viewer'] }, 'name'],
      [{ name: 'oidc:alice', roles: ['viewer'] }, 'name'],
      [{ name: 'x'.repeat(65), roles: ['viewer'] }, 'name'],
      [{ name: 'ci', roles: [] }, 'roles'],
      [{ name: 'ci', roles: ['root'] }, 'roles[0]'],
      [{ name: 'ci', roles: 'admin' }, 'roles'],
      [{ name: 'ci' }, 'roles'],
      [{ name: 'ci', roles: ['viewer'], namespace: 'Team A' }, 'namespace'],
      [{ name: 'ci', roles: ['viewer'], namespace: '' }, 'namespace'],
      [{ name: 'ci', roles: ['viewer'], namespace: 'a.*' }, 'namespace'],
      [{ name: 'ci', roles: ['viewer'], expires_at_ms: 5 }, 'expires_at_ms'],
      [{ name: 'ci', roles: ['viewer'], secrets: [] }, 'secrets'],
      [{ name: 'ci', roles: ['viewer'], created_by: 'x' }, 'created_by'],
      [{ name: 'ci', roles: ['viewer'], description: 'a\nb' }, 'description'],
    ];
    for (const [json, field] of cases) {
      const { status, body } = await sms.http('POST', tokensPath, { json });
      expect([json, status, body.errors]).toEqual([json, 400, [expect.objectContaining({ field })]]);
    }
    expect(await listed(sms)).toEqual([]);
  });

  it('has a unique name', async () => {
    const sms = await startTestSms();
    await createToken(sms, { name: 'ci', roles: ['viewer'] });
    const again = await askForToken(sms, { name: 'ci', roles: ['admin'] });
    expect([again.status, again.body.type]).toEqual([409, 'urn:spear:problem:token-exists']);
  });

  it('is in the audit log by name, with all changes to it and by it [people.audit]', async () => {
    const sms = await startTestSms();
    const admin = await createToken(sms, { name: 'alice', roles: ['admin'] });
    await createToken(sms, { name: 'ci', roles: ['viewer'], namespace: 'team-a' }, admin);
    await sms.http('POST', `${tokensPath}/ci/rotate`, { json: {}, token: admin });
    await sms.http('DELETE', `${tokensPath}/ci`, { token: admin });
    await sms.http('POST', servers, { json: fsRecord, token: admin });
    await sms.sms.close();
    const lines = linesOf(sms.config.audit?.file ?? '');
    const told = (event: string) =>
      lines
        .filter((line) => line.event === event)
        .map(({ actor, role, namespace, token, action, fields }) => [actor, role, namespace, token, action, fields]);
    expect(told('sms.token_changed')).toEqual([
      ['bootstrap-admin', 'admin', '*', 'alice', 'create', []],
      ['alice', 'admin', '*', 'ci', 'create', []],
      ['alice', 'admin', '*', 'ci', 'update', ['secrets']],
      ['alice', 'admin', '*', 'ci', 'delete', []],
    ]);
    expect(told('sms.record_changed')).toEqual([['alice', 'admin', '*', undefined, 'create', []]]);
    expect(readFileSync(sms.config.audit?.file ?? '', 'utf8')).not.toMatch(/spr_|digest/);
  });
});

it('the first of two authorization headers decides', async () => {
  const sms = await startTestSms();
  const { host, port, hostname } = new URL(sms.sms.http);
  const ask = (...tokens: string[]) =>
    new Promise<number>((resolve, reject) => {
      const headers = ['host', host, ...tokens.flatMap((token) => ['authorization', `Bearer ${token}`])];
      const sent = request({ hostname, port, path: me, headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.on('error', reject);
      sent.end();
    });
  expect(await ask(sms.adminToken, 'wrong')).toBe(200);
  expect(await ask('wrong', sms.adminToken)).toBe(401);
});

it('a token that is rotated and revoked concurrently is revoked, with all of its texts [people.revoke]', async () => {
  const sms = await startTestSms();
  const texts = [await createToken(sms, { name: 'ci', roles: ['viewer'] })];
  const rotate = () => sms.http('POST', `${tokensPath}/ci/rotate`, { json: {} });
  const answers = await Promise.all([rotate(), rotate(), sms.http('DELETE', `${tokensPath}/ci`), rotate()]);
  for (const { body } of answers) if (typeof body.token === 'string') texts.push(body.token);
  expect(answers[2]?.status).toBe(200);
  expect(await listed(sms)).toEqual([]);
  for (const text of texts) expect(await statusOf(sms, text)).toBe(401);
});

it('uses are written in batches, and again after a failure', async () => {
  const store = createMemoryStoreOf(tokenUseKind);
  const logged: string[] = [];
  let isFull = true;
  const uses = new TokenUses({
    store: {
      ...storeMethods(store),
      apply: (changes) => (isFull ? Promise.reject(new Error('full')) : store.apply(changes)),
    },
    isToken: (name) => name !== 'gone',
    log: (_, event) => logged.push(event),
  });
  for (let number = 0; number < 1_000; number++) uses.record(number % 2 === 0 ? 'a' : 'gone');
  expect(await store.revision()).toBe(0);
  await uses.write();
  expect([await store.revision(), logged]).toEqual([0, ['token_uses_not_written']]);
  isFull = false;
  await uses.close();
  expect((await store.list()).records).toMatchObject([{ name: 'a', last_used_at_ms: uses.lastUse('a') }]);
  expect(uses.lastUse('gone')).toBeNull();
});

/** The methods of a store as properties, to replace one of them. */
function storeMethods<R extends StoreStamps>(store: RegistryStore<R>): RegistryStore<R> {
  return {
    kind: store.kind,
    epoch: () => store.epoch(),
    revision: () => store.revision(),
    list: () => store.list(),
    get: (id) => store.get(id),
    upsert: (record, options) => store.upsert(record, options),
    remove: (id, options) => store.remove(id, options),
    apply: (changes) => store.apply(changes),
    origins: () => store.origins(),
    watch: (since, signal) => store.watch(since, signal),
    upToDate: () => store.upToDate(),
    currencyProblem: () => store.currencyProblem(),
    close: () => store.close(),
  };
}

describe('an admin of one namespace', () => {
  const start = async () => {
    const sms = await startTestSms();
    const admin = await createToken(sms, { name: 'team-a-admin', roles: ['admin'], namespace: 'team-a' });
    await createToken(sms, { name: 'outsider', roles: ['viewer'], namespace: 'team-b' });
    return { sms, admin };
  };

  it('has access only to that namespace [people.namespaces]', async () => {
    const { sms, admin } = await start();
    for (const namespace of ['team-b', '*', 'default']) {
      expect((await askForToken(sms, { name: 'x', roles: ['viewer'], namespace }, admin)).status).toBe(403);
    }
    await createToken(sms, { name: 'mine', roles: ['approver'] }, admin);
    const { body } = await sms.http('GET', tokensPath, { token: admin });
    const seen = body.tokens as readonly { name: string; namespace: string }[];
    expect(seen.map(({ name, namespace }) => [name, namespace])).toEqual([
      ['mine', 'team-a'],
      ['team-a-admin', 'team-a'],
    ]);
    expect((await sms.http('DELETE', `${tokensPath}/outsider`, { token: admin })).status).toBe(404);
    expect((await sms.http('POST', `${tokensPath}/outsider/rotate`, { token: admin, json: {} })).status).toBe(404);
    expect(await listed(sms)).toHaveLength(3);
  });

  it('cannot change shared resources or read unmasked records [people.namespaces]', async () => {
    const { sms, admin } = await start();
    const put = await sms.http('PUT', `${servers}/fs`, { json: fsRecord, token: admin });
    expect([put.status, put.body.detail]).toEqual([
      403,
      expect.stringContaining('is limited to the namespace "team-a"'),
    ]);
    expect((await sms.http('POST', '/admin/api/mcp/backup', { token: admin })).status).toBe(403);
    expect(await statusOf(sms, admin, '/api/v1/mcp/servers')).toBe(403);
    await expect(sms.source(admin).list(AbortSignal.timeout(45_000))).rejects.toThrow(/permission_denied/i);
    expect(await statusOf(sms, admin, servers)).toBe(200);
  });

  it('cannot grant or obtain permissions that it does not have [people.no_escalation]', async () => {
    const { sms, admin } = await start();
    expect((await askForToken(sms, { name: 'n', roles: ['node'] }, admin)).status).toBe(403);
    expect((await askForToken(sms, { name: 'j', roles: ['viewer'], read_journals: true }, admin)).status).toBe(403);
    await createToken(sms, { name: 'team-a-node', roles: ['node'], namespace: 'team-a' });
    await createToken(sms, { name: 'auditor', roles: ['viewer'], namespace: 'team-a', read_journals: true });
    for (const name of ['team-a-node', 'auditor']) {
      expect((await sms.http('POST', `${tokensPath}/${name}/rotate`, { token: admin, json: {} })).status).toBe(403);
      // Removing a permission requires it as well.
      expect((await sms.http('DELETE', `${tokensPath}/${name}`, { token: admin })).status).toBe(200);
    }
  });
});

it('ten thousand tokens are looked up as fast as one, and listed', async () => {
  const store = createMemoryStoreOf(tokenKind);
  const texts = Array.from({ length: 10_000 }, newTokenText);
  const stamps = { updated_at_ms: 0, mod_revision: 0 };
  await store.apply(
    texts.map((text, number) => ({
      upsert: {
        ...stamps,
        name: `t${number}`,
        description: '',
        roles: ['viewer'],
        namespace: '*',
        read_journals: false,
        created_at_ms: 1,
        created_by: 'test',
        expires_at_ms: null,
        secrets: [{ digest: digestOf(text).toString('hex'), created_at_ms: 1, expires_at_ms: null }],
      },
    })),
  );
  const tokens = new NamedTokens(store, new Validity(), () => {});
  await tokens.open();
  expect(texts.map((text, number) => tokens.identify(text) !== null && number)).toEqual([...texts.keys()]);
  expect(tokens.identify(newTokenText())).toBeNull();
  const started = process.cpuUsage();
  for (const text of texts) tokens.identify(text);
  const { user } = process.cpuUsage(started);
  expect(user / texts.length).toBeLessThan(200); // µs each; to compare with all of them would take milliseconds
  await tokens.upTo(await store.remove('t7'));
  expect(tokens.identify(texts[7] ?? '')).toBeNull();
  await tokens.close();
});
