import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { APPROVALS_PATH, approvalsRoutes } from '../../../src/registry/routes/approvals-routes.ts';
import type { HttpCall } from '../../../src/server/http/route.ts';
import { type OpenedQueue, openQueue } from '../../agent/approvals/open-queue.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

interface Listing {
  readonly approvals: readonly { readonly run: string }[];
  readonly total: number;
}

/** The answer of the list, as a caller of this namespace sees it. */
async function list({ queue }: OpenedQueue, query: string, namespace = '*'): Promise<Listing> {
  const route = approvalsRoutes(queue).find(({ method, path }) => method === 'GET' && path === APPROVALS_PATH);
  const caller = { actor: 'vic', role: 'viewer', namespace, peer: null, via: 'http', method: 'none' } as const;
  const call = { query: new URLSearchParams(query), headers: {}, id: '', caller } as unknown as HttpCall;
  const reply = await route?.run(call);
  return JSON.parse(String((reply as { body: string }).body)) as Listing;
}

const runsOf = ({ approvals }: Listing) => approvals.map(({ run }) => run);

async function fourRequests(): Promise<OpenedQueue> {
  const opened = await openQueue();
  const { node, ann } = opened;
  for (const [run, more] of [
    ['r1', {}],
    ['r2', { server_id: 'db', tool_name: 'query' }],
    ['r3', { namespace: 'team-a', task: 'other' }],
    ['r4', {}],
  ] as const) {
    await node.open({ run, ...more });
    vi.advanceTimersByTime(10);
  }
  const [first] = (await opened.store.list()).records.filter(({ run }) => run === 'r1');
  await ann.decide(first?.approval_id ?? '', 'deny');
  return opened;
}

describe('the list of approvals', () => {
  it.each([
    ['', ['r4', 'r3', 'r2', 'r1']],
    ['status=waiting', ['r4', 'r3', 'r2']],
    ['status=denied', ['r1']],
    ['status=used', []],
    ['run=r2', ['r2']],
    ['server_id=db', ['r2']],
    ['tool_name=write_file', ['r4', 'r3', 'r1']],
    ['task=other', ['r3']],
    ['namespace=team-a', ['r3']],
    ['tool_name=write_file&status=waiting&namespace=default', ['r4']],
  ])('has newest first those that match %j', async (query, runs) => {
    expect(runsOf(await list(await fourRequests(), query))).toEqual(runs);
  });

  it('has as many as are asked for, and says how many there are', async () => {
    const listing = await list(await fourRequests(), 'limit=2');
    expect([runsOf(listing), listing.total]).toEqual([['r4', 'r3'], 4]);
  });

  it('has nothing of other namespaces, also where they are asked for', async () => {
    const opened = await fourRequests();
    expect(runsOf(await list(opened, '', 'team-a'))).toEqual(['r3']);
    expect(runsOf(await list(opened, 'namespace=default', 'team-a'))).toEqual([]);
  });

  it.each(['status=open', 'limit=0', 'limit=1001', 'limit=x', 'limit=1.5'])('refuses %s', async (query) => {
    await expect(list(await openQueue(), query)).rejects.toMatchObject({ status: 400 });
  });
});
