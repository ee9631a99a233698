import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { hashDefinition } from '../../../src/agent/policy/definition-hash.ts';
import { saltedHash } from '../../../src/server/records/approval.ts';
import { restoreSqliteStore } from '../../../src/server/store/sqlite-backup.ts';
import { startTestSms, stopAll, type TestSms, temporaryDirectory } from '../../registry/running-sms.ts';
import { APPROVALS, boundCall, clientAt, clientOf, decide, listed, questionOf, waiting } from './asking-node.ts';

afterEach(stopAll);

const every = ['*'];
const args = { path: '/data/x', content: 'a line' };
const rule = {
  name: 'two',
  namespaces: every,
  servers: every,
  tools: ['write_*'],
  approvers: null,
  needed: 2,
  allowSelf: false,
};

async function tokenOf(sms: TestSms, name: string, roles: readonly string[], namespace = '*'): Promise<string> {
  const { status, text, body } = await sms.http('POST', '/admin/api/tokens', { json: { name, roles, namespace } });
  expect(status, text).toBe(201);
  return String(body.token);
}

describe('who decides', () => {
  it('so many people as the rule wants, each once, and one who denies is enough [approval.sms.rules]', async () => {
    const sms = await startTestSms({ approverRules: [rule] });
    const [ann, bob] = [await tokenOf(sms, 'ann', ['approver']), await tokenOf(sms, 'bob', ['approver'])];
    const client = clientAt(sms);
    const answering = client.ask(questionOf());
    const [request] = await waiting(sms);
    const id = request?.approval_id ?? '';
    expect((await decide(sms, id, 'allow_session', { token: ann })).body).toMatchObject({
      status: 'waiting',
      needed: 2,
    });
    const again = await decide(sms, id, 'allow_once', { token: ann });
    expect([again.status, again.body.type]).toEqual([403, 'urn:spear:problem:not-an-approver']);
    expect((await decide(sms, id, 'allow_once', { token: bob })).body).toMatchObject({
      status: 'granted',
      decision: 'allow_once', // the least that both allow
      decided_by: ['ann', 'bob'],
    });
    expect((await answering).decidedBy).toBe('ann, bob');
    const denied = client.ask(questionOf({ bound: { ...boundCall, ordinal: '6.1.1' } }));
    const [second] = await waiting(sms);
    await decide(sms, second?.approval_id ?? '', 'deny', { token: bob });
    expect((await denied).decision).toBe('deny');
  });

  it('those whom the rule names, and nobody about a request of their own [approval.sms.rules]', async () => {
    const sms = await startTestSms({ approverRules: [{ ...rule, needed: 1, approvers: ['ops-*', 'eve'] }] });
    const ann = await tokenOf(sms, 'ann', ['approver']);
    const ops = await tokenOf(sms, 'ops-1', ['approver']);
    const eve = await tokenOf(sms, 'eve', ['approver', 'node']);
    const port = sms.source(eve).approvals('node-1');
    const request = {
      call: boundCall,
      callId: 'c',
      argumentsJson: '{}',
      definitionJson: '{}',
      causeCode: 'always',
      causeText: '',
      isKept: false,
    };
    const { id } = await port.open(request, new AbortController().signal);
    expect((await listed(sms))[0]).toMatchObject({ requested_by: 'eve' });
    const shown = await sms.http('GET', `${APPROVALS}/${id}`, { token: ann });
    expect(shown.body.why_not).toContain('is not an approver of the rule');
    expect((await decide(sms, id, 'allow_once', { token: ann })).status).toBe(403);
    const own = await decide(sms, id, 'allow_once', { token: eve });
    expect([own.status, String(own.body.detail)]).toEqual([
      403,
      expect.stringContaining('another user must decide it'),
    ]);
    expect((await decide(sms, id, 'allow_once', { token: ops })).status).toBe(200);
  });

  it('those whom the rules name that were read last, also of a request that waits [approval.sms.rules.reload]', async () => {
    const sms = await startTestSms({ approverRules: [{ ...rule, needed: 1, approvers: ['ops-*'] }] });
    const ann = await tokenOf(sms, 'ann', ['approver']);
    const answering = clientAt(sms).ask(questionOf());
    const [request] = await waiting(sms);
    const id = request?.approval_id ?? '';
    expect((await decide(sms, id, 'allow_once', { token: ann })).status).toBe(403);
    sms.reconfigure({ approverRules: [{ ...rule, needed: 1, approvers: ['ann'] }] });
    await sms.sms.reload();
    expect((await decide(sms, id, 'allow_once', { token: ann })).status).toBe(200);
    expect((await answering).decision).toBe('allow_once');
  });

  it('those of its namespace alone; others do not know of it [approval.sms.rules]', async () => {
    const sms = await startTestSms();
    const [node, mine] = [
      await tokenOf(sms, 'n-a', ['node'], 'team-a'),
      await tokenOf(sms, 'ann', ['approver'], 'team-a'),
    ];
    const theirs = await tokenOf(sms, 'bob', ['approver'], 'team-b');
    const client = clientOf(sms.source(node).approvals('node-1'));
    const answering = client.ask(questionOf());
    const [request] = await waiting(sms);
    const id = request?.approval_id ?? '';
    expect(await listed(sms)).toMatchObject([{ namespace: 'team-a' }]);
    expect((await sms.http('GET', APPROVALS, { token: theirs })).body.approvals).toEqual([]);
    expect((await sms.http('GET', `${APPROVALS}/${id}`, { token: theirs })).status).toBe(404);
    expect((await decide(sms, id, 'allow_once', { token: theirs })).status).toBe(404);
    expect((await decide(sms, id, 'allow_once', { token: mine })).status).toBe(200);
    expect((await answering).decidedBy).toBe('ann');
    const viewer = await tokenOf(sms, 'vic', ['viewer'], 'team-a');
    expect((await sms.http('GET', `${APPROVALS}/${id}`, { token: viewer })).status).toBe(200);
    expect((await sms.http('GET', `${APPROVALS}/${id}/arguments`, { token: viewer })).status).toBe(403);
    expect((await decide(sms, id, 'deny', { token: viewer })).status).toBe(403);
  });
});

describe('what is kept of requests', () => {
  it('tells what changed since the tool was last allowed, and keeps little of what is large [approval.sms.kept]', async () => {
    const sms = await startTestSms();
    const client = clientAt(sms);
    const described = (description: string) => ({
      name: 'write_file',
      description,
      inputSchema: {},
      outputSchema: null,
      annotations: null,
    });
    const asked = async (ordinal: string, description: string) => {
      const definition = described(description);
      const bound = { ...boundCall, ordinal, definition_sha256: hashDefinition(definition) };
      const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`key${at}`, at]));
      const answering = client.ask(questionOf({ bound, definition, arguments: many }));
      const [request] = await waiting(sms);
      const { body } = await sms.http('GET', `${APPROVALS}/${request?.approval_id}`);
      await decide(sms, request?.approval_id ?? '', 'allow_once');
      await (await answering).grant?.redeem(bound, many);
      return body.changes;
    };
    expect(await asked('1', 'writes')).toEqual([]);
    expect(await asked('2', 'writes all')).toEqual([{ path: 'description', before: 'writes', after: 'writes all' }]);
    expect(await asked('3', 'x'.repeat(100_000))).toMatchObject([{ path: 'description' }]);
    expect(await asked('4', 'writes')).toMatchObject([
      { path: 'definition', after: expect.stringContaining('sha256 ') },
    ]);
    for (const approval of await listed(sms)) expect(JSON.stringify(approval).length).toBeLessThan(20_000);
  });

  it('is bounded by number, and of those that ended arguments are masked and cut [approval.sms.kept]', async () => {
    const sms = await startTestSms({ limit: { max_approvals: 2, max_waiting_approvals: 1 } });
    const client = clientAt(sms);
    const secret = 'ghp_0123456789abcdefghijABCDEFGHIJ0123456789';
    for (let at = 1; at <= 4; at++) {
      const answering = client.ask(
        questionOf({ bound: { ...boundCall, ordinal: `7.1.${at}` }, arguments: { secret } }),
      );
      const [request] = await waiting(sms);
      if (at === 1) expect((await clientAt(sms).ask(questionOf())).reason).toContain('too many approvals are pending');
      await decide(sms, request?.approval_id ?? '', 'deny');
      await answering;
    }
    await sms.restart();
    const kept = await listed(sms);
    expect(kept.length).toBeLessThanOrEqual(2);
    expect(JSON.stringify(kept)).not.toContain(secret.slice(0, 12));
  });

  it('a grant of a backup is worth nothing: nobody knows whether it was used since [approval.sms.kept]', async () => {
    const sms = await startTestSms();
    const client = clientAt(sms);
    const answering = client.ask(questionOf());
    const [request] = await waiting(sms);
    await decide(sms, request?.approval_id ?? '', 'allow_once');
    const { grant } = await answering;
    const backup = await fetch(`${sms.sms.http}/admin/api/mcp/backup`, {
      method: 'POST',
      headers: { authorization: `Bearer ${sms.adminToken}` },
    });
    const [copy, data] = [join(temporaryDirectory(), 'backup.db'), join(temporaryDirectory(), 'registry.db')];
    writeFileSync(copy, Buffer.from(await backup.arrayBuffer()), { mode: 0o600 });
    expect(await grant?.redeem(boundCall, args)).toBeNull();
    await restoreSqliteStore(copy, data);
    const restored = await startTestSms({}, data);
    const port = restored.source().approvals('node-1');
    const hash = saltedHash(String(request && Reflect.get(request, 'salt')), args);
    const signal = new AbortController().signal;
    expect(await port.claim(request?.approval_id ?? '', '0'.repeat(32), boundCall, hash, signal)).toBe('expired');
    expect((await listed(restored))[0]?.reason).toContain('restored from a backup');
  });
});
