import { afterEach, describe, expect, it } from 'vitest';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { boundCall, clientAt, decide, listed, questionOf, waiting } from './asking-node.ts';

afterEach(stopAll);

const args = { path: '/data/x', content: 'a line' };

describe('a request for an approval', () => {
  it('waits, is allowed by somebody, and is used once [approval.sms]', async () => {
    const sms = await startTestSms();
    const answering = clientAt(sms).ask(questionOf());
    const [request] = await waiting(sms);
    expect(request).toMatchObject({
      server_id: 'fs',
      tool_name: 'write_file',
      arguments: args,
      requested_by: 'bootstrap-node',
    });
    expect((await decide(sms, request?.approval_id ?? '', 'allow_once', { reason: 'fine' })).status).toBe(200);
    const answer = await answering;
    expect(answer).toMatchObject({ decision: 'allow_once', reason: 'fine', decidedBy: 'bootstrap-admin' });
    expect(await answer.grant?.redeem(boundCall, args)).toBeNull();
    expect(await answer.grant?.redeem(boundCall, args)).toBeNull(); // the same claim: its answer may have been lost
    expect((await listed(sms))[0]).toMatchObject({ status: 'used', decided_by: ['bootstrap-admin'] });
    const again = clientAt(sms).ask(questionOf());
    const [second] = await waiting(sms);
    expect(second?.approval_id).not.toBe(request?.approval_id);
    await decide(sms, second?.approval_id ?? '', 'deny', { reason: 'once is enough' });
    expect(await again).toMatchObject({ decision: 'deny', reason: 'once is enough', grant: null });
  });

  it('is decided by one of two at the same moment; the other is told who and what [approval.sms.two]', async () => {
    const sms = await startTestSms();
    const client = clientAt(sms);
    for (let round = 1; round <= 5; round++) {
      const answering = client.ask(questionOf({ bound: { ...boundCall, ordinal: `5.1.${round}` } }));
      const [request] = await waiting(sms);
      const id = request?.approval_id ?? '';
      const both = await Promise.all([decide(sms, id, 'allow_once'), decide(sms, id, 'deny', { reason: 'no' })]);
      expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
      const won = both.findIndex(({ status }) => status === 200) === 0 ? 'allow_once' : 'deny';
      const lost = both.find(({ status }) => status === 409);
      expect(lost?.body).toMatchObject({
        type: 'urn:spear:problem:already-decided',
        detail: expect.stringContaining(`${won} by bootstrap-admin`),
      });
      expect((await answering).decision).toBe(won);
    }
  });

  it('is found again by the same call, waiting or decided, and not by another [approval.sms.resume]', async () => {
    const sms = await startTestSms();
    const killed = clientAt(sms).ask(questionOf());
    const [request] = await waiting(sms);
    const resumed = clientAt(sms).ask(questionOf());
    const other = clientAt(sms).ask(questionOf({ arguments: { path: '/etc/passwd' } }));
    const both = await waiting(sms, 2);
    expect(both).toHaveLength(2);
    await decide(sms, request?.approval_id ?? '', 'deny', { reason: 'not now' });
    expect((await resumed).reason).toBe('not now');
    expect((await killed).reason).toBe('not now');
    expect((await clientAt(sms).ask(questionOf())).reason).toBe('not now');
    const [left] = await waiting(sms);
    await decide(sms, left?.approval_id ?? '', 'allow_once');
    const [first, second] = [await other, await clientAt(sms).ask(questionOf({ arguments: { path: '/etc/passwd' } }))];
    const sent = { path: '/etc/passwd' };
    const claims = await Promise.all([first.grant?.redeem(boundCall, sent), second.grant?.redeem(boundCall, sent)]);
    expect(claims.filter((refusal) => refusal === null)).toHaveLength(1);
  });

  it('survives a restart of the registry, waiting and granted, and is told of the decision [approval.sms.restart]', async () => {
    const sms = await startTestSms();
    const answering = clientAt(sms).ask(questionOf());
    const [request] = await waiting(sms);
    await sms.restart();
    const [still] = await waiting(sms);
    expect(still?.approval_id).toBe(request?.approval_id);
    await decide(sms, request?.approval_id ?? '', 'allow_once');
    const { grant } = await answering;
    await sms.restart();
    expect(await grant?.redeem(boundCall, args)).toBeNull();
  });
});
