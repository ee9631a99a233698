import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  ApprovalClient,
  ApprovalConnection,
  type ApprovalWait,
  type BoundRequest,
} from '../../../src/agent/approvals/client.ts';
import type { ApprovalQueueOptions } from '../../../src/agent/approvals/service.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { ApprovalRejected } from '../../../src/registry-client/ports.ts';
import { type BoundCall, boundCallFields } from '../../../src/server/records/approval.ts';
import { FakeRemote } from './fake-remote.ts';
import { askedCall, boundOf, GRANT_MS, openQueue, WAIT_MS } from './open-queue.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

const bound = boundOf(askedCall());
const args: JsonObject = { path: '/data/x', content: 'a line' };

function question(more: Partial<BoundRequest> = {}): BoundRequest {
  return {
    ...{ server: 'fs', tool: 'write_file', ordinal: bound.ordinal, callId: 'call-1', arguments: args, bound },
    ...{ cause: { code: 'always', text: '' }, definition: {}, isResumable: () => false },
    signal: new AbortController().signal,
    ...more,
  } as unknown as BoundRequest;
}

async function open(options: Partial<ApprovalQueueOptions> = {}) {
  const registry = await openQueue(options);
  const remote = new FakeRemote(registry);
  const connection = new ApprovalConnection(remote, () => {});
  const said: string[] = [];
  const newClient = (
    more: { readonly submittedBy?: string; readonly waits?: (wait: ApprovalWait) => () => void } = {},
  ) => new ApprovalClient({ connection, fileWithinMs: 5_000, say: (text) => said.push(text), ...more });
  const client = newClient();
  const waiting = async () => {
    await pass(0);
    const [request] = (await registry.store.list()).records.filter(({ status }) => status === 'waiting');
    return request?.approval_id ?? '';
  };
  return { registry, remote, client, newClient, said, waiting, ann: registry.ann };
}

describe('a question to the registry', () => {
  it.each(['allow_once', 'allow_session'] as const)('is answered with who decided and why: %s', async (decision) => {
    const { client, waiting, ann } = await open();
    const answering = client.ask(question());
    await ann.decide(await waiting(), decision, { reason: 'fine' });
    await pass(0);
    const answer = await answering;
    expect(answer).toMatchObject({ decision, reason: 'fine', decidedBy: 'ann' });
    expect(await answer.grant?.redeem(bound, args)).toBeNull();
    expect(answer.grant?.isRedeemed).toBe(true);
  });

  it('names the submitter of the run when it is asked and when its grant is redeemed [approval.self]', async () => {
    const { newClient, remote, waiting, ann, registry } = await open();
    const claim = vi.spyOn(remote, 'claim');
    const answering = newClient({ submittedBy: 'sam' }).ask(question());
    const id = await waiting();
    expect(await registry.node.get(id)).toMatchObject({ submitted_by: 'sam' });
    await ann.decide(id, 'allow_once');
    await pass(0);
    expect(await (await answering).grant?.redeem(bound, args)).toBeNull();
    expect(claim.mock.calls[0]?.[2]).toMatchObject({ submitted_by: 'sam' });
  });

  it('is answered with a denial, which has no grant', async () => {
    const { client, waiting, ann } = await open();
    const answering = client.ask(question());
    await ann.decide(await waiting(), 'deny', { reason: 'once is enough' });
    await pass(0);
    expect(await answering).toMatchObject({ decision: 'deny', reason: 'once is enough', grant: null });
  });

  it('is denied when nobody decides in time [approval.sms.times]', async () => {
    const { client } = await open();
    const answering = client.ask(question());
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
      const { client, waiting, registry } = await open();
      const call = new AbortController();
      const answering = client.ask(question({ signal: call.signal, isResumable: () => isResumable }));
      const id = await waiting();
      call.abort(new Error('the guest ended'));
      expect((await answering).decision).toBe('deny');
      await pass(0);
      expect(await registry.node.get(id)).toMatchObject({ status });
    },
  );

  it('that the registry does not take is denied at once, with its reason', async () => {
    const { client, remote } = await open();
    vi.spyOn(remote, 'open').mockRejectedValue(new ApprovalRejected('too many requests wait'));
    expect(await client.ask(question())).toMatchObject({ decision: 'deny', reason: 'too many requests wait' });
  });

  it('is asked again while the registry cannot be reached, and denied after the time for that', async () => {
    const { client, remote, said } = await open();
    const opening = vi.spyOn(remote, 'open').mockRejectedValue(new Error('ECONNREFUSED'));
    const answering = client.ask(question());
    await pass(5_000);
    const { decision, reason } = await answering;
    expect([decision, reason]).toEqual(['deny', expect.stringContaining('is unreachable within 5000 ms')]);
    // What failed is for who runs the node, not for the model.
    expect([reason.includes('ECONNREFUSED'), said.join().includes('ECONNREFUSED')]).toEqual([false, true]);
    expect(opening.mock.calls.length).toBeLessThan(20);
  });

  it('reports that it waits, and is over with the decision; abandoned, it takes no answer', async () => {
    const { newClient, waiting, ann, registry } = await open();
    const waits: ApprovalWait[] = [];
    let over = 0;
    const watched = {
      waits: (wait: ApprovalWait) => {
        waits.push(wait);
        return () => void over++;
      },
    };
    const answering = newClient(watched).ask(question());
    const id = await waiting();
    expect(waits.map(({ id: request }) => request)).toEqual([id]);
    expect((await registry.node.get(id)).grant_ms).toBeGreaterThan(GRANT_MS); // its run may be parked
    await ann.decide(id, 'allow_once');
    await pass(0);
    expect([(await answering).decision, over > 0]).toEqual(['allow_once', true]);

    let isAnswered = false;
    const other = { run: 'run-2' };
    void newClient({ ...watched, ...other })
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
    const answering = all.client.ask(question());
    await all.ann.decide(await all.waiting(), 'allow_once');
    await pass(0);
    const { grant } = await answering;
    return { ...all, grant };
  };

  it.each([...boundCallFields, 'arguments'] as const)(
    'does not hold where the %s of the call is another, and is gone then [approval.sms.bound]',
    async (field) => {
      const { grant } = await grantFor();
      const other = field === 'arguments' ? bound : ({ ...bound, [field]: 'another' } as BoundCall);
      const sent = field === 'arguments' ? { ...args, content: 'another' } : args;
      expect(await grant?.redeem(other, sent)).toMatchObject({
        outdated: true,
        message: expect.stringContaining(field),
      });
      expect(await grant?.redeem(bound, args)).toMatchObject({
        outdated: true,
        message: expect.stringContaining('withdrawn'),
      });
    },
  );

  it('that is not used in time does not hold [approval.sms.times]', async () => {
    const { grant } = await grantFor();
    expect(grant?.leftMs).toBe(GRANT_MS);
    await pass(GRANT_MS);
    expect(await grant?.redeem(bound, args)).toMatchObject({ message: expect.stringContaining('expired') });
  });

  it('that nobody wants any more is withdrawn, and one that was used is not', async () => {
    const dropped = await grantFor();
    const [{ approval_id: id = '' } = {}] = (await dropped.registry.store.list()).records;
    dropped.grant?.drop('its call was cancelled');
    await pass(0);
    expect(await dropped.registry.node.get(id)).toMatchObject({
      status: 'withdrawn',
      reason: 'its call was cancelled',
    });
    const used = await grantFor();
    await used.grant?.redeem(bound, args);
    used.grant?.drop('late');
    await pass(0);
    expect((await used.registry.store.list()).records).toMatchObject([{ status: 'used' }]);
  });

  it('that cannot be redeemed because the registry is away may be tried again later', async () => {
    const { grant, remote } = await grantFor({ grantMs: 60_000 });
    const claiming = vi.spyOn(remote, 'claim').mockRejectedValue(new Error('ECONNREFUSED'));
    const redeeming = grant?.redeem(bound, args);
    await pass(30_000);
    expect(await redeeming).toMatchObject({ outdated: false, message: expect.stringContaining('is unreachable') });
    claiming.mockRestore();
    expect(await grant?.redeem(bound, args)).toBeNull();
  });
});
