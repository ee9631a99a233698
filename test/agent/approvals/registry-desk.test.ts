import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { DeskQuestion, DeskWait } from '../../../src/agent/approvals/desk.ts';
import { RegistryDesk } from '../../../src/agent/approvals/registry-desk.ts';
import type { ApprovalQueueOptions } from '../../../src/agent/approvals/service/queue.ts';
import { SharedApprovals } from '../../../src/agent/approvals/shared-approvals.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { ApprovalRejected } from '../../../src/registry-client/approval-port.ts';
import { type BoundCall, boundCallFields } from '../../../src/server/records/approval.ts';
import { FakeRemote } from './service/fake-remote.ts';
import { askedCall, boundOf, GRANT_MS, openQueue, WAIT_MS } from './service/open-queue.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

const bound = boundOf(askedCall());
const args: JsonObject = { path: '/data/x', content: 'a line' };

function question(more: Partial<DeskQuestion> = {}): DeskQuestion {
  return {
    ...{ server: 'fs', tool: 'write_file', ordinal: bound.ordinal, callId: 'call-1', arguments: args, bound },
    ...{ cause: { code: 'always', text: '' }, definition: {}, isResumable: () => false },
    signal: new AbortController().signal,
    ...more,
  } as unknown as DeskQuestion;
}

async function open(options: Partial<ApprovalQueueOptions> = {}) {
  const registry = await openQueue(options);
  const remote = new FakeRemote(registry);
  const port = new SharedApprovals(remote, () => {});
  const said: string[] = [];
  const newDesk = (
    more: {
      readonly run?: string;
      readonly submittedBy?: string;
      readonly waits?: (wait: DeskWait) => () => void;
    } = {},
  ) => new RegistryDesk({ port, run: bound.run, fileWithinMs: 5_000, say: (text) => said.push(text), ...more });
  const desk = newDesk();
  const waiting = async () => {
    await pass(0);
    const [request] = (await registry.store.list()).records.filter(({ status }) => status === 'waiting');
    return request?.approval_id ?? '';
  };
  return { registry, remote, desk, newDesk, said, waiting, ann: registry.ann };
}

describe('a question to the registry', () => {
  it.each(['allow_once', 'allow_session'] as const)('is answered with who decided and why: %s', async (decision) => {
    const { desk, waiting, ann } = await open();
    const answering = desk.ask(question());
    await ann.decide(await waiting(), decision, { reason: 'fine' });
    await pass(0);
    const answer = await answering;
    expect(answer).toMatchObject({ decision, reason: 'fine', decidedBy: 'ann' });
    expect(await answer.ticket?.claim(bound, args)).toBeNull();
    expect(answer.ticket?.isClaimed).toBe(true);
  });

  it('names the submitter of the run when it is asked and when its grant is redeemed [approval.self]', async () => {
    const { newDesk, remote, waiting, ann, registry } = await open();
    const claim = vi.spyOn(remote, 'claim');
    const answering = newDesk({ submittedBy: 'sam' }).ask(question());
    const id = await waiting();
    expect(await registry.node.get(id)).toMatchObject({ submitted_by: 'sam' });
    await ann.decide(id, 'allow_once');
    await pass(0);
    expect(await (await answering).ticket?.claim(bound, args)).toBeNull();
    expect(claim.mock.calls[0]?.[2]).toMatchObject({ submitted_by: 'sam' });
  });

  it('is answered with a denial, which has no grant', async () => {
    const { desk, waiting, ann } = await open();
    const answering = desk.ask(question());
    await ann.decide(await waiting(), 'deny', { reason: 'once is enough' });
    await pass(0);
    expect(await answering).toMatchObject({ decision: 'deny', reason: 'once is enough', ticket: null });
  });

  it('is denied when nobody decides in time [approval.sms.times]', async () => {
    const { desk } = await open();
    const answering = desk.ask(question());
    await pass(WAIT_MS);
    const reason = `no decision within ${WAIT_MS} ms`;
    expect(await answering).toMatchObject({ decision: 'deny', decidedBy: null, reason });
  });

  it.each([
    [false, 'withdrawn'],
    [true, 'waiting'],
  ] as const)(
    'whose call is cancelled is taken back unless its run may be resumed (%s: %s) [approval.sms.resume]',
    async (isResumable, status) => {
      const { desk, waiting, registry } = await open();
      const call = new AbortController();
      const answering = desk.ask(question({ signal: call.signal, isResumable: () => isResumable }));
      const id = await waiting();
      call.abort(new Error('the guest ended'));
      expect((await answering).decision).toBe('deny');
      await pass(0);
      expect(await registry.node.get(id)).toMatchObject({ status });
    },
  );

  it('that the registry does not take is denied at once, with its reason', async () => {
    const { desk, remote } = await open();
    vi.spyOn(remote, 'open').mockRejectedValue(new ApprovalRejected('too many requests wait'));
    expect(await desk.ask(question())).toMatchObject({ decision: 'deny', reason: 'too many requests wait' });
  });

  it('is asked again while the registry cannot be reached, and denied after the time for that', async () => {
    const { desk, remote, said } = await open();
    const opening = vi.spyOn(remote, 'open').mockRejectedValue(new Error('ECONNREFUSED'));
    const answering = desk.ask(question());
    await pass(5_000);
    const { decision, reason } = await answering;
    expect([decision, reason]).toEqual(['deny', expect.stringContaining('is unreachable within 5000 ms')]);
    // What failed is for who runs the node, not for the model.
    expect([reason.includes('ECONNREFUSED'), said.join().includes('ECONNREFUSED')]).toEqual([false, true]);
    expect(opening.mock.calls.length).toBeLessThan(20);
  });

  it('reports that it waits, and is over with the decision; abandoned, it takes no answer', async () => {
    const { newDesk, waiting, ann, registry } = await open();
    const waits: DeskWait[] = [];
    let over = 0;
    const watched = {
      waits: (wait: DeskWait) => {
        waits.push(wait);
        return () => void over++;
      },
    };
    const answering = newDesk(watched).ask(question());
    const id = await waiting();
    expect(waits.map(({ request }) => request)).toEqual([id]);
    expect((await registry.node.get(id)).grant_ms).toBeGreaterThan(GRANT_MS); // its run may be parked
    await ann.decide(id, 'allow_once');
    await pass(0);
    expect([(await answering).decision, over > 0]).toEqual(['allow_once', true]);

    let isAnswered = false;
    const other = { run: 'run-2' };
    void newDesk({ ...watched, ...other })
      .ask(question({ bound: { ...bound, ...other } }))
      .then(() => {
        isAnswered = true;
      });
    const second = await waiting();
    waits[1]?.abandon();
    await ann.decide(second, 'allow_once');
    await pass(2 * WAIT_MS);
    expect(isAnswered).toBe(false);
  });
});

describe('a grant', () => {
  const grantFor = async (options: Partial<ApprovalQueueOptions> = {}) => {
    const all = await open(options);
    const answering = all.desk.ask(question());
    await all.ann.decide(await all.waiting(), 'allow_once');
    await pass(0);
    const { ticket } = await answering;
    return { ...all, ticket };
  };

  it.each([...boundCallFields, 'arguments'] as const)(
    'does not hold where the %s of the call is another, and is gone then [approval.sms.bound]',
    async (field) => {
      const { ticket } = await grantFor();
      const other = field === 'arguments' ? bound : ({ ...bound, [field]: 'another' } as BoundCall);
      const sent = field === 'arguments' ? { ...args, content: 'another' } : args;
      expect(await ticket?.claim(other, sent)).toMatchObject({
        outdated: true,
        message: expect.stringContaining(field),
      });
      expect(await ticket?.claim(bound, args)).toMatchObject({
        outdated: true,
        message: expect.stringContaining('withdrawn'),
      });
    },
  );

  it('that is not used in time does not hold [approval.sms.times]', async () => {
    const { ticket } = await grantFor();
    expect(ticket?.leftMs).toBe(GRANT_MS);
    await pass(GRANT_MS);
    expect(await ticket?.claim(bound, args)).toMatchObject({ message: expect.stringContaining('expired') });
  });

  it('that nobody wants any more is withdrawn, and one that was used is not', async () => {
    const dropped = await grantFor();
    const [{ approval_id: id = '' } = {}] = (await dropped.registry.store.list()).records;
    dropped.ticket?.drop('its call was cancelled');
    await pass(0);
    expect(await dropped.registry.node.get(id)).toMatchObject({
      status: 'withdrawn',
      reason: 'its call was cancelled',
    });
    const used = await grantFor();
    await used.ticket?.claim(bound, args);
    used.ticket?.drop('late');
    await pass(0);
    expect((await used.registry.store.list()).records).toMatchObject([{ status: 'used' }]);
  });

  it('that cannot be redeemed because the registry is away may be tried again later', async () => {
    const { ticket, remote } = await grantFor({ grantMs: 60_000 });
    const claiming = vi.spyOn(remote, 'claim').mockRejectedValue(new Error('ECONNREFUSED'));
    const redeeming = ticket?.claim(bound, args);
    await pass(30_000);
    expect(await redeeming).toMatchObject({ outdated: false, message: expect.stringContaining('is unreachable') });
    claiming.mockRestore();
    expect(await ticket?.claim(bound, args)).toBeNull();
  });
});
