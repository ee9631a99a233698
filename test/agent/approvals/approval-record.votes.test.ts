import { describe, expect, it } from 'vitest';
import { counted, newRequest } from '../../../src/agent/approvals/approval-record.ts';
import type { Approval, ApprovalDecision } from '../../../src/server/records/approval.ts';
import { askedCall } from './open-queue.ts';

const request = newRequest(askedCall(), {
  ...{ round: 1, epoch: 'e', requestedBy: 'node-1', rule: null, changes: [] },
  ...{ now: 1_000, waitMs: 500, grantMs: 200 },
});

/** Each vote by another approver, a millisecond after the one before. */
const voted = (decisions: readonly ApprovalDecision[], needed: number): Approval =>
  decisions.reduce(
    (approval, decision, at) =>
      counted(
        approval,
        { decision, reason: `reason ${at}` },
        { needed, by: `approver ${at}`, person: null, now: 1_100 + at },
      ),
    request,
  );

describe('votes', () => {
  it.each([
    [['allow_once'], 1, 'granted', 'allow_once'],
    [['allow_session'], 1, 'granted', 'allow_session'],
    [['deny'], 1, 'denied', 'deny'],
    [['allow_once'], 2, 'waiting', null],
    [['allow_once', 'allow_once'], 2, 'granted', 'allow_once'],
    [['allow_session', 'allow_once'], 2, 'granted', 'allow_once'],
    [['allow_once', 'allow_session'], 2, 'granted', 'allow_once'],
    [['allow_session', 'allow_session'], 2, 'granted', 'allow_session'],
    [['deny'], 3, 'denied', 'deny'],
    [['allow_session', 'allow_session', 'deny'], 3, 'denied', 'deny'],
    [['allow_session', 'allow_session'], 3, 'waiting', null],
  ] as const)('%j of %i that are needed are %s: %s', (decisions, needed, status, decision) => {
    const approval = voted(decisions, needed);
    expect(approval).toMatchObject({ status, decision, needed });
    expect(approval.votes.map((vote) => vote.decision)).toEqual(decisions);
  });

  it('that grant start the time of the grant; the reason is the last one', () => {
    expect(voted(['allow_once', 'allow_once'], 2)).toMatchObject({
      ...{ decided_at_ms: 1_101, expires_at_ms: 1_301, reason: 'reason 1' },
      votes: [
        { by: 'approver 0', reason: 'reason 0', at_ms: 1_100 },
        { by: 'approver 1', reason: 'reason 1', at_ms: 1_101 },
      ],
    });
  });

  it('that are not enough leave the deadline of the request', () => {
    expect(voted(['allow_once'], 2)).toMatchObject({ expires_at_ms: 1_500, decided_at_ms: null, reason: null });
  });

  it('that deny mask the arguments, those that grant leave them as they would be sent', () => {
    const secret = 'ghp_0123456789abcdefghijABCDEFGHIJ0123456789';
    const asked = { ...request, arguments: { secret } };
    const by = { needed: 1, by: 'ann', person: 'ann', now: 1_100 };
    expect(counted(asked, { decision: 'allow_once', reason: null }, by).arguments).toEqual({ secret });
    expect(JSON.stringify(counted(asked, { decision: 'deny', reason: null }, by).arguments)).not.toContain(secret);
  });
});
