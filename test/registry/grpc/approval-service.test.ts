import { createContextValues, type HandlerContext } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { approvalService } from '../../../src/registry/grpc/approval-service.ts';
import { grpcCaller } from '../../../src/registry/grpc/grpc-call.ts';
import { type OpenedQueue, openQueue } from '../../agent/approvals/open-queue.ts';

const HEARTBEAT_MS = 5_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** What one watch of a node of this namespace has received so far: `run status`, or a heartbeat. */
function watch({ queue }: OpenedQueue, { run = '', namespace = '' }, own = '*') {
  const stop = new AbortController();
  let open = 0;
  const begin = () => {
    open += 1;
    return () => {
      open -= 1;
    };
  };
  const service = approvalService(queue, { heartbeatMs: HEARTBEAT_MS, watchers: { begin }, log: () => {} });
  const caller = { actor: 'node-1', role: 'node', namespace: own, peer: null, via: 'grpc', method: 'none' } as const;
  const request = { run, namespace } as unknown as Parameters<typeof service.watchApprovals>[0];
  const values = createContextValues().set(grpcCaller, caller);
  const events = service.watchApprovals(request, { signal: stop.signal, values } as unknown as HandlerContext);
  const received: string[] = [];
  const ended = (async () => {
    for await (const { approval } of events) {
      received.push(approval ? `${approval.run} ${approval.status}` : 'heartbeat');
    }
  })().catch((error: unknown) => error);
  return { received, stop: () => stop.abort('gone'), ended, watchers: () => open };
}

describe('a watch of all decisions', () => {
  it('begins with a heartbeat, has decisions from now on, and neither requests nor the past', async () => {
    const opened = await openQueue();
    const { node, ann } = opened;
    await ann.decide((await node.open({ run: 'r0' })).approval_id, 'deny');
    const { received } = watch(opened, {});
    await pass(0);
    const first = await node.open({ run: 'r1' });
    await ann.decide(first.approval_id, 'allow_once');
    await node.withdraw((await node.open({ run: 'r2' })).approval_id);
    await pass(0);
    expect(received).toEqual(['heartbeat', 'r1 granted', 'r2 withdrawn']);
  });

  it('has the end of requests that nobody decided about', async () => {
    const opened = await openQueue({ waitMs: 1_000 });
    const { received } = watch(opened, {});
    await opened.node.open({ run: 'r1' });
    await pass(1_000);
    expect(received).toEqual(['heartbeat', 'r1 denied']);
  });

  it('has a heartbeat where nothing happens', async () => {
    const { received } = watch(await openQueue(), {});
    await pass(3 * HEARTBEAT_MS);
    expect(received).toEqual(Array(4).fill('heartbeat'));
  });

  it('has nothing of other namespaces', async () => {
    const opened = await openQueue();
    const { received } = watch(opened, {}, 'team-a');
    await pass(0);
    for (const [run, namespace] of [
      ['r1', 'team-a'],
      ['r2', 'team-b'],
    ] as const) {
      await opened.ann.decide((await opened.node.open({ run, namespace })).approval_id, 'deny');
    }
    await pass(0);
    expect(received).toEqual(['heartbeat', 'r1 denied']);
  });

  it('of another namespace is refused', async () => {
    const opened = await openQueue();
    expect(() => watch(opened, { namespace: 'team-b' }, 'team-a')).toThrow('namespace is not a');
  });

  it('ends with its reader, and is not counted any more', async () => {
    const { stop, ended, watchers } = watch(await openQueue(), {});
    await pass(0);
    expect(watchers()).toBe(1);
    stop();
    expect([await ended, watchers()]).toEqual(['gone', 0]);
  });
});

describe('a watch of one run', () => {
  it('has its requests as they are, then each change, and nothing of others', async () => {
    const opened = await openQueue();
    const { node, ann } = opened;
    const { approval_id: id } = await node.open({ run: 'r1' });
    await node.open({ run: 'r2' });
    const { received } = watch(opened, { run: 'r1' });
    await pass(0);
    await ann.decide(id, 'allow_session');
    await pass(0);
    expect(received).toEqual(['heartbeat', 'r1 waiting', 'r1 granted']);
  });
});
