import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, it } from 'vitest';
import {
  APPROVALS,
  boundCall,
  clientAt,
  clientOf,
  decide,
  questionOf,
  waiting,
} from '../../agent/approvals/asking-node.ts';
import { approverRule } from '../../agent/approvals/open-queue.ts';
import { startTestSms, stopAll, type TestSms } from '../../registry/running-sms.ts';

afterEach(stopAll);

const TOKENS = '/admin/api/tokens';
const ask = (sms: TestSms, name: string, roles: readonly string[], namespace: string, token = sms.adminToken) =>
  sms.http('POST', TOKENS, { json: { name, roles, namespace }, token });
const tokenOf = async (...given: Parameters<typeof ask>) => {
  const { status, text, body } = await ask(...given);
  expect(status, text).toBe(201);
  return String(body.token);
};
const rotate = (sms: TestSms, name: string, token: string) =>
  sms.http('POST', `${TOKENS}/${name}/rotate`, { json: {}, token });

/** An admin and an approver of one namespace, both made by the installation. */
async function withNamespaceAdmin(sms: TestSms) {
  const boss = await tokenOf(sms, 'boss', ['admin'], 'default');
  const ann = await tokenOf(sms, 'ann', ['approver'], 'default');
  return { boss, ann };
}

describe('one vote per person', () => {
  it('counts tokens of one creator once, also through a revoked token in between [approval.person]', async () => {
    const sms = await startTestSms({ approverRules: [approverRule({ needed: 2 })] });
    const { boss, ann } = await withNamespaceAdmin(sms);
    const second = await tokenOf(sms, 'boss-2', ['admin'], 'default', boss);
    const third = await tokenOf(sms, 'boss-3', ['approver'], 'default', second);
    expect((await sms.http('DELETE', `${TOKENS}/boss-2`, { token: boss })).status).toBe(200);
    const answering = clientAt(sms).ask(questionOf());
    const id = (await waiting(sms))[0]?.approval_id ?? '';
    expect((await decide(sms, id, 'allow_once', { token: third })).body).toMatchObject({
      status: 'waiting',
      votes: [{ by: 'boss-3', person: 'boss' }],
    });
    // The vote stays that of the person when its token is gone.
    expect((await sms.http('DELETE', `${TOKENS}/boss-3`, { token: boss })).status).toBe(200);
    const again = await decide(sms, id, 'allow_once', { token: boss });
    expect([again.status, again.body.detail]).toEqual([
      403,
      '"boss-3", a token of the same person as "boss", has already voted; another approver must decide too',
    ]);
    expect((await decide(sms, id, 'allow_once', { token: ann })).body).toMatchObject({ status: 'granted' });
    expect((await answering).decidedBy).toBe('boss-3, ann');
  });

  it('refuses the submitter under another name [approval.self]', async () => {
    const sms = await startTestSms();
    const { boss, ann } = await withNamespaceAdmin(sms);
    const second = await tokenOf(sms, 'boss-2', ['approver'], 'default', boss);
    const answering = clientAt(sms, 'boss').ask(questionOf());
    const id = (await waiting(sms))[0]?.approval_id ?? '';
    for (const token of [boss, second]) expect((await decide(sms, id, 'allow_once', { token })).status).toBe(403);
    const shown = await sms.http('GET', `${APPROVALS}/${id}`, { token: second });
    expect(shown.body).toMatchObject({ submitted_by: 'boss', why_not: expect.stringContaining('the same person') });
    expect((await decide(sms, id, 'allow_once', { token: ann })).status).toBe(200);
    expect((await answering).decision).toBe('allow_once');
  });

  it('refuses the submitter after the token that submitted the run was revoked [approval.self]', async () => {
    const sms = await startTestSms();
    const { boss, ann } = await withNamespaceAdmin(sms);
    await tokenOf(sms, 'boss-2', ['submitter'], 'default', boss);
    const revoke = () => sms.http('DELETE', `${TOKENS}/boss-2`, { token: boss });
    const first = clientAt(sms, 'boss-2').ask(questionOf());
    const id = (await waiting(sms))[0]?.approval_id ?? '';
    expect((await revoke()).status).toBe(200);
    expect((await decide(sms, id, 'allow_once', { token: boss })).body.detail).toContain('submitted the run');
    expect((await decide(sms, id, 'allow_once', { token: ann })).status).toBe(200);
    expect((await first).decision).toBe('allow_once');
    // A request of the same submitter that is made only now: the person behind it cannot be found.
    void clientAt(sms, 'boss-2').ask(questionOf({ bound: { ...boundCall, run: 'run-2' } }));
    const later = (await waiting(sms))[0]?.approval_id ?? '';
    for (const token of [boss, ann]) {
      const refused = await decide(sms, later, 'allow_once', { token });
      expect([refused.status, refused.body.detail]).toEqual([
        403,
        'the token "boss-2" that submitted the run was revoked, so the person behind it is unknown; submit the run again',
      ]);
    }
  });

  it('refuses another token of the user whose own token requested the approval [approval.self]', async () => {
    const sms = await startTestSms();
    const root = await tokenOf(sms, 'root', ['admin'], '*');
    const second = await tokenOf(sms, 'root-2', ['approver'], '*', root);
    const ann = await tokenOf(sms, 'ann', ['approver'], 'default');
    const client = clientOf(sms.source(root).approvals('laptop'));
    const answering = client.ask(questionOf());
    const id = (await waiting(sms))[0]?.approval_id ?? '';
    for (const token of [root, second]) expect((await decide(sms, id, 'allow_once', { token })).status).toBe(403);
    expect((await decide(sms, id, 'allow_once', { token: ann })).status).toBe(200);
    expect((await answering).decision).toBe('allow_once');
  });

  it('finds the person behind tokens of earlier versions after their creator was revoked [approval.person]', async () => {
    const sms = await startTestSms();
    const { boss } = await withNamespaceAdmin(sms);
    const second = await tokenOf(sms, 'boss-2', ['admin'], 'default', boss);
    const third = await tokenOf(sms, 'boss-3', ['approver'], 'default', second);
    await sms.sms.close();
    const database = new DatabaseSync(sms.config.files.data);
    database.exec(`UPDATE records SET record = json_remove(record, '$.person') WHERE kind = 'token'`);
    database.close();
    await sms.restart();
    void clientAt(sms, 'boss').ask(questionOf());
    const id = (await waiting(sms))[0]?.approval_id ?? '';
    expect((await sms.http('DELETE', `${TOKENS}/boss-2`, { token: boss })).status).toBe(200);
    expect((await decide(sms, id, 'allow_once', { token: third })).body.detail).toContain('the same person');
  });
});

describe('names of approvers [approval.reserved]', () => {
  const rules = [approverRule({ name: 'ops', approvers: ['ops-*', '*'], needed: 2 })];

  it('cannot be created or rotated by admins of one namespace', async () => {
    const sms = await startTestSms({ approverRules: rules });
    const { boss } = await withNamespaceAdmin(sms);
    await tokenOf(sms, 'ops-1', ['approver'], 'default');
    const refused = [await ask(sms, 'ops-2', ['approver'], 'default', boss), await rotate(sms, 'ops-1', boss)];
    expect(refused.map(({ status }) => status)).toEqual([403, 403]);
    expect(refused[0]?.body.detail).toBe(
      'the approver rule "ops" names "ops-2": only an admin of all namespaces can create or rotate this token',
    );
    expect((await rotate(sms, 'ops-1', sms.adminToken)).status).toBe(200);
    await tokenOf(sms, 'carl', ['approver'], 'default', boss);
  });

  it('are listed if tokens of one namespace have them', async () => {
    const sms = await startTestSms();
    const { boss } = await withNamespaceAdmin(sms);
    await tokenOf(sms, 'ops-1', ['approver'], 'default', boss);
    await tokenOf(sms, 'ops-2', ['approver'], 'default');
    sms.reconfigure({ approverRules: rules });
    await sms.sms.reload();
    const { tokens } = (await sms.http('GET', TOKENS)).body as {
      tokens?: readonly { readonly name: string; readonly violates: string | null }[];
    };
    expect(tokens?.filter(({ violates }) => violates !== null)).toMatchObject([{ name: 'ops-1', violates: 'ops' }]);
  });
});

it('a rotation by another user is in the audit log, and the holder is notified [people.rotated]', async () => {
  const sms = await startTestSms();
  const { boss, ann } = await withNamespaceAdmin(sms);
  const noticed = async (token: string) => (await sms.http('GET', '/admin/api/me', { token })).body.rotated_by;
  expect((await rotate(sms, 'boss', boss)).status).toBe(200);
  expect([await noticed(ann), await noticed(boss)]).toEqual([null, null]);
  expect((await rotate(sms, 'ann', boss)).status).toBe(200);
  expect(await noticed(ann)).toEqual({ name: 'boss', at_ms: expect.any(Number) });
  const admin = await tokenOf(sms, 'eve', ['admin'], 'default');
  const rotated = (await rotate(sms, 'eve', boss)).body.token;
  // The holder of the new text cannot remove the notice.
  expect((await rotate(sms, 'eve', String(rotated))).status).toBe(200);
  expect(await noticed(admin)).toMatchObject({ name: 'boss' });
  expect((await rotate(sms, 'ann', boss)).status).toBe(200);
  await sms.sms.close();
  const lines = readFileSync(sms.config.audit?.file ?? '', 'utf8')
    .trim()
    .split('\n');
  const changes = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'sms.token_changed');
  expect(changes.at(-1)).toMatchObject({
    ...{ actor: 'boss', token: 'ann', action: 'update', fields: expect.arrayContaining(['rotated_by']) },
    after: { rotated_by: { name: 'boss' } },
  });
});
