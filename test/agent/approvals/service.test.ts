import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from 'vitest';
import { AlreadyDecided, type ApprovalQueue, MayNotDecide, QueueFull } from '../../../src/agent/approvals/service.ts';
import type { AuditedStore } from '../../../src/registry/audit/audited-store.ts';
import { noTrail } from '../../../src/server/audit/sms-trail.ts';
import { Caller } from '../../../src/server/identity/caller.ts';
import { approvalLimits, boundCallFields } from '../../../src/server/records/approval.ts';
import { StoreError } from '../../../src/server/store/store.ts';
import {
  approverRule,
  GRANT_MS,
  granted,
  KEPT_GRANT_MS,
  newStore,
  type OpenedQueue,
  openQueue,
  WAIT_MS,
} from './open-queue.ts';

const START_MS = Date.parse('2026-01-02T03:04:05.000Z');

beforeEach(() => void vi.useFakeTimers({ now: START_MS }));
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** A request in each state that it can be in. */
const inState = {
  waiting: ({ node }: OpenedQueue) => node.open(),
  granted: (opened: OpenedQueue) => granted(opened),
  denied: async ({ node, ann }: OpenedQueue) => ann.decide((await node.open()).approval_id, 'deny', { reason: 'no' }),
  used: async (opened: OpenedQueue) => {
    const approval = await granted(opened);
    await opened.node.redeem(approval);
    return opened.node.get(approval.approval_id);
  },
  expired: async (opened: OpenedQueue) => {
    const { approval_id: id } = await granted(opened);
    await pass(GRANT_MS);
    return opened.node.get(id);
  },
  withdrawn: async ({ node }: OpenedQueue) => {
    const { approval_id: id } = await node.open();
    await node.withdraw(id);
    return node.get(id);
  },
} as const;
const closedStates = ['denied', 'used', 'expired', 'withdrawn'] as const;

describe('a request for an approval', () => {
  it('waits, with what the node asked and until when', async () => {
    const { node, queue } = await openQueue();
    const approval = await node.open();
    expect(approval).toMatchObject({
      ...{ status: 'waiting', namespace: 'default', run: 'run-1', tool_name: 'write_file', requested_by: 'node-1' },
      ...{ created_at_ms: START_MS, expires_at_ms: START_MS + WAIT_MS, needed: 1, rule: null, votes: [] },
      arguments: { path: '/data/x', content: 'a line' },
    });
    expect([queue.waiting, queue.leftMs(approval), queue.ageMs(approval)]).toEqual([1, WAIT_MS, 0]);
  });

  it.each(['waiting', 'granted', 'denied'] as const)('that is %s is found again by the same call', async (state) => {
    const opened = await openQueue();
    const approval = await inState[state](opened);
    expect(await opened.node.open()).toEqual(approval);
    expect((await opened.store.list()).records).toHaveLength(1);
  });

  it.each(['used', 'expired', 'withdrawn'] as const)(
    'that is %s makes room for another of the same call',
    async (state) => {
      const opened = await openQueue();
      const first = await inState[state](opened);
      const second = await opened.node.open();
      expect(second.status).toBe('waiting');
      expect([first.approval_id, second.approval_id].map((id) => id.split('-')[1])).toEqual(['1', '2']);
    },
  );

  it.each([...boundCallFields, 'arguments', 'namespace'] as const)(
    'is not found by a call with another %s',
    async (field) => {
      const opened = await openQueue();
      const first = await inState.denied(opened);
      const value = field === 'arguments' ? { path: '/etc/passwd' } : field === 'kind' ? 'prompt' : 'another';
      const second = await opened.node.open({ [field]: value });
      expect(second.status).toBe('waiting');
      expect(second.approval_id).not.toBe(first.approval_id);
    },
  );

  it('is one where two nodes ask for the same call at the same moment', async () => {
    const { by } = await openQueue();
    const both = await Promise.all([by('node-1').open(), by('node-2').open()]);
    expect(new Set(both.map(({ approval_id: id }) => id)).size).toBe(1);
  });
});

describe('a decision', () => {
  it.each([
    ['allow_once', 'granted', 'allow_once'],
    ['allow_session', 'granted', 'allow_session'],
    ['deny', 'denied', 'deny'],
  ] as const)('%s makes a request %s, with who and why', async (decision, status, decided) => {
    const { node, ann, counted, queue } = await openQueue();
    const { approval_id: id } = await node.open();
    await pass(500);
    const approval = await ann.decide(id, decision, { reason: 'seen' });
    expect(approval).toMatchObject({ status, decision: decided, reason: 'seen', decided_at_ms: START_MS + 500 });
    expect(approval.votes).toEqual([{ by: 'ann', decision, reason: 'seen', at_ms: START_MS + 500 }]);
    expect([counted, queue.waiting]).toEqual([[decision], 0]);
    await pass(70);
    expect(queue.ageMs(approval)).toBe(70);
  });

  it.each(['granted', ...closedStates] as const)(
    'about a request that is %s is refused, and changes nothing',
    async (state) => {
      const opened = await openQueue();
      const before = await inState[state](opened);
      const { bob } = opened;
      for (const decision of ['allow_once', 'allow_session', 'deny'] as const) {
        await expect(bob.decide(before.approval_id, decision)).rejects.toThrow(AlreadyDecided);
      }
      await expect(bob.decide(before.approval_id, 'deny')).rejects.toMatchObject({ approval: before });
      expect(await bob.get(before.approval_id)).toEqual(before);
      expect(bob.whyNot(before)).toBe(`the approval is already ${state}`);
    },
  );

  it('that came second names who was first and what they said [approval.sms.two]', async () => {
    const { node, ann, bob } = await openQueue();
    const { approval_id: id } = await node.open();
    const [won, lost] = await Promise.allSettled([ann.decide(id, 'allow_once'), bob.decide(id, 'deny')]);
    expect(won).toMatchObject({ status: 'fulfilled', value: { status: 'granted' } });
    expect(lost).toMatchObject({
      status: 'rejected',
      reason: { message: 'the approval is already granted, allow_once by ann' },
    });
  });

  it('about what was looked at is refused where the request has changed since', async () => {
    const { node, ann, bob } = await openQueue({ rules: [approverRule({ needed: 2 })] });
    const { approval_id: id, mod_revision: seen } = await node.open();
    await ann.decide(id, 'allow_once', { ifModRevision: seen });
    await expect(bob.decide(id, 'allow_once', { ifModRevision: seen })).rejects.toMatchObject({
      code: 'revision_mismatch',
    });
    const { mod_revision: now } = await bob.get(id);
    expect(await bob.decide(id, 'allow_once', { ifModRevision: now })).toMatchObject({ status: 'granted' });
  });

  it('about an unknown request says so', async () => {
    const { ann } = await openQueue();
    for (const id of ['0'.repeat(16).concat('-1'), 'no-id', '']) {
      await expect(ann.decide(id, 'deny')).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  it('of one registry is known to another on the same store', async () => {
    const store = newStore();
    const [first, second] = [await openQueue({}, store), await openQueue({}, store)];
    const { approval_id: id } = await first.node.open();
    await pass(0);
    expect([first.queue.waiting, second.queue.waiting]).toEqual([1, 1]);
    await second.ann.decide(id, 'deny', { reason: 'no' });
    await pass(0);
    expect([first.queue.waiting, first.node.isWaiting(id)]).toEqual([0, false]);
    await expect(first.bob.decide(id, 'allow_once')).rejects.toThrow('already denied, deny by ann: no');
  });

  it('of two registries at the same moment is made once', async () => {
    const store = newStore();
    const [first, second] = [await openQueue({}, store), await openQueue({}, store)];
    const { approval_id: id } = await first.node.open();
    const both = await Promise.allSettled([first.ann.decide(id, 'allow_once'), second.bob.decide(id, 'deny')]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect((await first.node.get(id)).votes).toHaveLength(1);
  });
});

describe('rules', () => {
  const two = [approverRule({ name: 'two', needed: 2 })];

  it('that want two keep a request waiting after the first, and count only the last decision [approval.sms.rules]', async () => {
    const { node, ann, bob, counted, queue } = await openQueue({ rules: two });
    const { approval_id: id } = await node.open();
    expect(await ann.decide(id, 'allow_session')).toMatchObject({ status: 'waiting', decision: null, rule: 'two' });
    expect([counted, queue.waiting]).toEqual([[], 1]);
    expect(await bob.decide(id, 'allow_once')).toMatchObject({ status: 'granted', decision: 'allow_once' });
    expect(counted).toEqual(['allow_once']);
  });

  it('that want two count both where they decide at the same moment [approval.sms.rules] [approval.sms.two]', async () => {
    const { node, ann, bob } = await openQueue({ rules: two });
    const { approval_id: id } = await node.open();
    await Promise.all([ann.decide(id, 'allow_once'), bob.decide(id, 'allow_once')]);
    expect(await node.get(id)).toMatchObject({ status: 'granted', votes: [{ by: 'ann' }, { by: 'bob' }] });
  });

  it('that want two count nobody twice, and one who denies is enough [approval.sms.rules]', async () => {
    const { node, ann, bob } = await openQueue({ rules: two });
    const { approval_id: id } = await node.open();
    await ann.decide(id, 'allow_once');
    await expect(ann.decide(id, 'allow_once')).rejects.toThrow('"ann" has already voted');
    expect(await bob.decide(id, 'deny')).toMatchObject({ status: 'denied', decision: 'deny' });
  });

  it('name who may decide; no caller decides about its own request [approval.sms.rules]', async () => {
    const { node, ann, bob, by } = await openQueue({
      rules: [approverRule({ name: 'ops', approvers: ['ops-*', 'node-1'] })],
    });
    const approval = await node.open();
    const { approval_id: id } = approval;
    await expect(bob.decide(id, 'allow_once')).rejects.toThrow(MayNotDecide);
    expect(ann.whyNot(approval)).toBe('"ann" is not an approver of the rule "ops"');
    await expect(node.decide(id, 'allow_once')).rejects.toThrow('requested this approval; another user must decide it');
    expect(by('ops-1').whyNot(approval)).toBeNull();
    expect(await by('ops-1').decide(id, 'allow_once')).toMatchObject({ status: 'granted' });
  });

  it('let no submitter approve a call of its run, unless one says allow_self [approval.self]', async () => {
    const { queue, node, by, ann } = await openQueue();
    const approval = await node.open({ submitted_by: 'sam' });
    const { approval_id: id } = approval;
    expect(by('sam').whyNot(approval)).toBe('"sam" submitted the run of this call; another user must decide it');
    for (const decision of ['allow_once', 'allow_session', 'deny'] as const) {
      await expect(by('sam').decide(id, decision)).rejects.toThrow(MayNotDecide);
    }
    expect(ann.whyNot(approval)).toBeNull();
    queue.useRules([approverRule({ allowSelf: true })]);
    expect(await by('sam').decide(id, 'allow_once')).toMatchObject({ status: 'granted', submitted_by: 'sam' });
  });

  it('that are read again hold for requests that wait, and lower no number that was asked for [approval.sms.rules.reload]', async () => {
    const { queue, node, ann, bob } = await openQueue({ rules: two });
    const { approval_id: id } = await node.open();
    queue.useRules([approverRule({ approvers: ['ann', 'bob'], needed: 1 })]);
    expect(await ann.decide(id, 'allow_once')).toMatchObject({ status: 'waiting', needed: 2 });
    queue.useRules([approverRule({ approvers: ['ann'], needed: 1 })]);
    await expect(bob.decide(id, 'allow_once')).rejects.toThrow(MayNotDecide);
    queue.useRules([approverRule({ needed: 3 })]);
    expect(await bob.decide(id, 'allow_once')).toMatchObject({ status: 'waiting', needed: 3 });
  });

  it('hold for nobody where callers have no names', async () => {
    const { node, queue, by } = await openQueue({
      hasNames: false,
      rules: [approverRule({ approvers: ['ann'], needed: 2 })],
    });
    const approval = await node.open();
    expect(approval.requested_by).toBeNull();
    const anybody = by(null);
    expect(anybody.whyNot(approval)).toBeNull();
    await anybody.decide(approval.approval_id, 'allow_once');
    expect(await anybody.decide(approval.approval_id, 'allow_once')).toMatchObject({
      status: 'granted',
      votes: [{ by: null }, { by: null }],
    });
    expect(queue.waiting).toBe(0);
  });
});

describe('a grant', () => {
  it('is redeemed exactly once; the same redemption may be repeated, as its answer may be lost [approval.sms]', async () => {
    const opened = await openQueue();
    const approval = await granted(opened);
    const { node } = opened;
    expect(await node.redeem(approval, 'a')).toBeNull();
    expect(await node.redeem(approval, 'a')).toBeNull();
    expect(await node.redeem(approval, 'b')).toBe('used');
    expect(await node.get(approval.approval_id)).toMatchObject({ status: 'used', claim: 'a'.padStart(32, '0') });
  });

  it('is redeemed by one of ten that try at the same moment, on two registries [approval.sms]', async () => {
    const store = newStore();
    const [first, second] = [await openQueue({}, store), await openQueue({}, store)];
    const approval = await granted(first);
    const tries = Array.from({ length: 10 }, (_, n) => (n % 2 === 0 ? first : second).node.redeem(approval, String(n)));
    const refusals = await Promise.all(tries);
    expect(refusals.filter((refusal) => refusal === null)).toHaveLength(1);
    expect(refusals.filter((refusal) => refusal === 'used')).toHaveLength(9);
  });

  it.each(boundCallFields)('is withdrawn where the %s of the call is another [approval.sms.bound]', async (field) => {
    const opened = await openQueue();
    const approval = await granted(opened);
    const call = { ...approval, [field]: 'another' };
    expect(await opened.node.redeem(approval, '1', { call })).toBe(field);
    expect(await opened.node.redeem(approval)).toBe('withdrawn');
    expect((await opened.node.get(approval.approval_id)).reason).toContain(`its ${field} changed`);
  });

  it('is withdrawn where the arguments of the call are others [approval.sms.bound]', async () => {
    const opened = await openQueue();
    const approval = await granted(opened);
    expect(await opened.node.redeem(approval, '1', { args: { path: '/data/x', content: 'another' } })).toBe(
      'arguments',
    );
    expect(await opened.node.redeem(approval)).toBe('withdrawn');
  });

  it('that the submitter of the run voted for is withdrawn at redemption [approval.self]', async () => {
    const { queue, node, by, store } = await openQueue({ rules: [approverRule({ allowSelf: true })] });
    const { approval_id: id } = await node.open({ submitted_by: 'sam' });
    const grant = await by('sam').decide(id, 'allow_once');
    queue.useRules([]);
    expect(await node.redeem(grant)).toBe('submitted_by');
    expect(await store.get(id)).toMatchObject({
      status: 'withdrawn',
      reason: 'the submitter of the run approved its call; another user must',
    });
    expect(await node.open({ submitted_by: 'sam' })).toMatchObject({ status: 'waiting' });
  });

  it.each([
    ['is withdrawn by a redemption that names another submitter', 'sam', 'ann', 'submitted_by'],
    ['is redeemed by an older node, which names none', 'sam', null, null],
    ['given before the submitter was stored is valid', null, 'sam', null],
  ])('%s [approval.self]', async (_, stored, redeeming, expected) => {
    const { node, bob } = await openQueue();
    const { approval_id: id } = await node.open({ submitted_by: stored });
    const grant = await bob.decide(id, 'allow_once');
    expect((await node.open({ submitted_by: redeeming })).approval_id === id).toBe(expected === null);
    expect(await node.redeem(grant, '1', { call: { ...grant, submitted_by: redeeming } })).toBe(expected);
  });

  it('is for the same arguments, in whatever order they are', async () => {
    const opened = await openQueue();
    const approval = await granted(opened);
    expect(await opened.node.redeem(approval, '1', { args: { content: 'a line', path: '/data/x' } })).toBeNull();
  });

  it.each(['waiting', 'denied', 'expired', 'withdrawn'] as const)('is none where the request is %s', async (state) => {
    const opened = await openQueue();
    const approval = await inState[state](opened);
    expect(await opened.node.redeem(approval)).toBe(state);
    expect(await opened.node.get(approval.approval_id)).toEqual(approval);
  });

  it('is none of an unknown request', async () => {
    const opened = await openQueue();
    const approval = await granted(opened);
    expect(await opened.node.redeem({ ...approval, approval_id: `${'0'.repeat(16)}-1` })).toBe('unknown');
    expect(await opened.node.redeem({ ...approval, approval_id: 'no id' })).toBe('unknown');
  });

  it('for the session is redeemed for the call that asked, once: others of the session are the node’s to grant', async () => {
    const { node, ann } = await openQueue();
    const { approval_id: id } = await node.open();
    const approval = await ann.decide(id, 'allow_session');
    expect(await node.redeem(approval, 'a')).toBeNull();
    expect(await node.redeem(approval, 'b')).toBe('used');
  });

  it('that is revoked before it is redeemed is none any more', async () => {
    const opened = await openQueue();
    const approval = await granted(opened);
    await opened.ann.withdraw(approval.approval_id, 'revoked');
    expect(await opened.node.redeem(approval)).toBe('withdrawn');
    expect(await opened.node.get(approval.approval_id)).toMatchObject({ reason: 'revoked' });
  });
});

describe('time', () => {
  it('denies a request that nobody decided about, without anybody asking [approval.sms.times]', async () => {
    const { node, store, counted, audited, queue } = await openQueue();
    const { approval_id: id } = await node.open();
    await pass(WAIT_MS - 1);
    expect((await store.get(id))?.status).toBe('waiting');
    await pass(1);
    expect(await store.get(id)).toMatchObject({
      ...{ status: 'denied', reason: `no decision within ${WAIT_MS} ms`, votes: [], decision: null },
    });
    expect([counted, queue.waiting]).toEqual([[], 0]);
    expect(audited.at(-1)).toMatchObject({ event: 'sms.approval_ended', via: 'process', method: 'sweep', actor: null });
  });

  it('ends a grant that is not redeemed, counted from the decision [approval.sms.times]', async () => {
    const { node, ann, store, queue } = await openQueue();
    const { approval_id: id } = await node.open();
    await pass(WAIT_MS - 1);
    const approval = await ann.decide(id, 'allow_once');
    expect(queue.leftMs(approval)).toBe(GRANT_MS);
    await pass(GRANT_MS - 1);
    expect((await store.get(id))?.status).toBe('granted');
    await pass(1);
    expect(await store.get(id)).toMatchObject({
      status: 'expired',
      reason: 'the grant expired before the call used it',
    });
    expect(queue.leftMs(approval)).toBe(0);
  });

  it('leaves a grant for days to a run that is kept meanwhile [node.park.away]', async () => {
    const { node, ann } = await openQueue();
    const { approval_id: id } = await node.open({ isKept: true });
    const approval = await ann.decide(id, 'allow_once');
    await pass(KEPT_GRANT_MS - 1);
    expect(await node.get(id)).toMatchObject({ status: 'granted' });
    await pass(1);
    expect(await node.redeem(approval)).toBe('expired');
  });

  it.each([
    [
      'decision',
      (opened: OpenedQueue, id: string) => expect(opened.ann.decide(id, 'allow_once')).rejects.toThrow(AlreadyDecided),
    ],
    [
      'look',
      async (opened: OpenedQueue, id: string) => expect(await opened.ann.get(id)).toMatchObject({ status: 'denied' }),
    ],
    [
      'question of the node',
      async (opened: OpenedQueue) => expect(await opened.node.open()).toMatchObject({ status: 'denied' }),
    ],
  ])('is over at its time, also where the first to see it is a %s', async (_, look) => {
    const opened = await openQueue();
    const { approval_id: id } = await opened.node.open();
    // The clock is set: no timer has fired.
    vi.setSystemTime(START_MS + WAIT_MS);
    await look(opened, id);
    expect((await opened.store.get(id))?.status).toBe('denied');
  });

  it('is found by the clock within 30 s where that is set forward', async () => {
    const { node, store } = await openQueue();
    const { approval_id: id } = await node.open();
    vi.setSystemTime(START_MS + 24 * 3_600_000);
    await pass(30_000);
    expect((await store.get(id))?.status).toBe('denied');
  });

  it('of two registries ends a request once', async () => {
    const store = newStore();
    const [first, second] = [await openQueue({}, store), await openQueue({}, store)];
    await first.node.open();
    await pass(2 * WAIT_MS);
    const ends = [...first.audited, ...second.audited].filter(({ event }) => event === 'sms.approval_ended');
    expect(ends).toHaveLength(1);
  });

  it('that passed while no registry was there counts', async () => {
    const store = newStore();
    const first = await openQueue({}, store);
    const { approval_id: id } = await first.node.open();
    first.queue.close();
    await pass(2 * WAIT_MS);
    expect((await store.get(id))?.status).toBe('waiting');
    await openQueue({}, store);
    expect((await store.get(id))?.status).toBe('denied');
  });

  it('does not wake a registry that was closed', async () => {
    const { node, queue } = await openQueue();
    await node.open();
    queue.close();
    await pass(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('withdrawing', () => {
  it.each(['waiting', 'granted'] as const)('closes a request that is %s, with the reason, cut', async (state) => {
    const opened = await openQueue();
    const { approval_id: id } = await inState[state](opened);
    await opened.node.withdraw(id, 'x'.repeat(2 * approvalLimits.reasonChars));
    const reason = `${'x'.repeat(approvalLimits.reasonChars)}…`;
    expect(await opened.node.get(id)).toMatchObject({ status: 'withdrawn', reason });
  });

  it.each(closedStates)('changes nothing of a request that is %s', async (state) => {
    const opened = await openQueue();
    const before = await inState[state](opened);
    await opened.node.withdraw(before.approval_id, 'late');
    expect(await opened.node.get(before.approval_id)).toEqual(before);
  });

  it('all requests of a run leaves those of other runs and namespaces', async () => {
    const { node, queue } = await openQueue();
    const mine = [await node.open(), await node.open({ ordinal: '5.1.2' })];
    const others = [await node.open({ run: 'run-2' }), await node.open({ namespace: 'team-a' })];
    await node.withdrawAll('default', 'run-1');
    for (const { approval_id: id } of mine) expect(await node.get(id)).toMatchObject({ status: 'withdrawn' });
    for (const { approval_id: id } of others) expect(node.isWaiting(id)).toBe(true);
    expect(queue.waiting).toBe(2);
  });
});

describe('limits', () => {
  it('bound the requests that wait, of all runs together', async () => {
    const { node, ann } = await openQueue({ maxWaiting: 2 });
    const { approval_id: id } = await node.open({ run: 'run-1' });
    await node.open({ run: 'run-2' });
    await expect(node.open({ run: 'run-3' })).rejects.toThrow(QueueFull);
    expect(await node.open({ run: 'run-2' })).toMatchObject({ status: 'waiting' }); // the one that it has
    await ann.decide(id, 'allow_once');
    expect(await node.open({ run: 'run-3' })).toMatchObject({ status: 'waiting' });
  });

  it('bound the requests of one run that wait', async () => {
    const { node } = await openQueue();
    for (let n = 0; n < approvalLimits.waitingPerRun; n++) await node.open({ ordinal: `5.1.${n}` });
    await expect(node.open({ ordinal: 'one more' })).rejects.toThrow('of this run');
    expect(await node.open({ run: 'run-2' })).toMatchObject({ status: 'waiting' });
  });

  it('bound how often one call may be asked about', async () => {
    const { node } = await openQueue();
    for (let round = 1; round <= approvalLimits.rounds; round++) {
      const { approval_id: id } = await node.open();
      expect(id.endsWith(`-${round}`)).toBe(true);
      await node.withdraw(id);
    }
    await expect(node.open()).rejects.toThrow('approval of this call was requested');
  });
});

describe('the caller', () => {
  it('is a parameter of every decision: a missing caller is a type error', () => {
    expectTypeOf<ApprovalQueue['decide']>().parameter(0).toEqualTypeOf<Caller>();
    expectTypeOf<ApprovalQueue['get']>().parameter(0).toEqualTypeOf<Caller>();
    expectTypeOf<ApprovalQueue['scope']>().parameters.toEqualTypeOf<[caller: Caller]>();
    // @ts-expect-error an audited store has no changes without a caller
    expectTypeOf<AuditedStore>().toHaveProperty('upsert');
  });

  it('has all namespaces as a job of this process, and none as an unauthenticated request', async () => {
    const { queue } = await openQueue();
    const peer = { socket: undefined };
    const callers = [Caller.process('sweep'), Caller.request(peer, 'http', 'GET /', null)];
    expect(callers.map((caller) => queue.scope(caller)('team-a'))).toEqual([true, false]);
    expect(callers.map((caller) => queue.namespaceFor(caller, ''))).toEqual(['default', null]);
  });
});

describe('namespaces', () => {
  it.each([
    ['of all', '*', '', 'default'],
    ['of all', '*', 'team-a', 'team-a'],
    ['of team-a', 'team-a', '', 'team-a'],
    ['of team-a', 'team-a', 'team-a', 'team-a'],
    ['of team-a', 'team-a', 'team-b', null],
  ])('a node %s (%s) that names %j asks in %s', async (_, own, given, namespace) => {
    const { by } = await openQueue();
    expect(by('node-1', own).namespaceFor(given)).toBe(namespace);
  });

  it('hide a request from callers of others, whatever they want to do with it', async () => {
    const { node, by } = await openQueue();
    const approval = await node.open({ namespace: 'team-a' });
    const { approval_id: id } = approval;
    const theirs = by('bob', 'team-b');
    for (const work of [theirs.get(id), theirs.decide(id, 'allow_once'), theirs.withdraw(id), theirs.readWhole(id)]) {
      await expect(work).rejects.toMatchObject({ code: 'not_found' });
    }
    expect([theirs.isWaiting(id), await theirs.redeem(approval)]).toEqual([false, 'unknown']);
    const mine = by('ann', 'team-a');
    expect(mine.isWaiting(id)).toBe(true);
    expect(await mine.decide(id, 'allow_once')).toMatchObject({ status: 'granted' });
  });
});

describe('the audit log', () => {
  it('has who asked, decided and redeemed, and never the whole arguments', async () => {
    const { node, ann, audited } = await openQueue();
    const secret = 'ghp_0123456789abcdefghijABCDEFGHIJ0123456789';
    const { approval_id: id } = await node.open({ arguments: { secret } });
    const approval = await ann.decide(id, 'allow_once', { reason: 'fine' });
    await node.redeem(approval);
    expect(audited).toMatchObject([
      {
        event: 'sms.approval_requested',
        actor: 'node-1',
        decided_by: 'nobody',
        reason: 'its record asks for every call',
      },
      { event: 'sms.approval_decided', actor: 'ann', decision: 'allow_once', status: 'granted', reason: 'fine' },
      { event: 'sms.approval_ended', actor: 'node-1', status: 'used', decided_by: 'ann', reason: null },
    ]);
    expect(JSON.stringify(audited)).not.toContain(secret);
  });

  it('says who read the whole arguments', async () => {
    const { node, ann, audited } = await openQueue();
    const { approval_id: id } = await node.open();
    expect((await ann.readWhole(id)).arguments).toEqual({ path: '/data/x', content: 'a line' });
    expect(audited.at(-1)).toMatchObject({ event: 'sms.approval_read', actor: 'ann', approval_id: id });
  });

  it('that cannot be written lets nothing be asked, decided, redeemed or withdrawn', async () => {
    let isWritable = true;
    const trail = { ...noTrail, allowsWrite: async () => isWritable };
    const opened = await openQueue({ trail });
    const approval = await granted(opened);
    const { approval_id: second } = await opened.node.open({ ordinal: '6' });
    isWritable = false;
    const { node, ann, store } = opened;
    for (const work of [
      node.open({ ordinal: '7' }),
      ann.decide(second, 'allow_once'),
      node.redeem(approval),
      node.withdraw(second),
    ]) {
      await expect(work).rejects.toMatchObject({ code: 'not_stored' });
    }
    expect((await store.list()).records.map(({ status }) => status).sort()).toEqual(['granted', 'waiting']);
    isWritable = true;
    expect(await node.redeem(approval)).toBeNull();
  });
});

describe('a store', () => {
  it('that fails loses no decision: it is the caller’s to repeat', async () => {
    const { node, ann, store } = await openQueue();
    const { approval_id: id } = await node.open();
    vi.spyOn(store, 'upsert').mockRejectedValueOnce(new StoreError('not_stored', 'disk full'));
    await expect(ann.decide(id, 'allow_once')).rejects.toThrow('disk full');
    expect(await ann.decide(id, 'allow_once')).toMatchObject({ status: 'granted' });
  });

  it('that was restored from a backup has no grants and no open requests', async () => {
    const first = await openQueue();
    await granted(first);
    await first.node.open({ ordinal: '6' });
    const { records } = await first.store.list();
    const restored = newStore();
    for (const record of records) await restored.upsert(record);
    const { node } = await openQueue({}, restored);
    for (const { approval_id: id, status } of records) {
      expect(await node.get(id)).toMatchObject({
        status: status === 'granted' ? 'expired' : 'denied',
        reason: expect.stringContaining('restored from a backup'),
      });
    }
  });
});
