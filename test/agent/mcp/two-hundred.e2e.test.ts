import { describe, expect, it } from 'vitest';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { AUTO_TOOL_CALL, answer, newSession, setParam } from '../../support/chat-calls.ts';
import { runFixture } from '../../support/run-fixture.ts';
import { useGuests } from '../../support/use-guest.ts';
import { call, callsThenDone, onHost, toolMessages } from './chat-sends.ts';
import { eventually } from './client/pool-samples.ts';
import { callOf, inject, type McpHost, openHost } from './mcp-host.ts';
import { notingServer } from './noting-server.ts';

const CALLS = 200;
const CONCURRENCY = 4;
const openGuest = useGuests();
const work = encodedName('counting', 'work');

interface Seen {
  readonly calls: number;
  readonly most: number;
  readonly order: readonly string[];
}

/** A server that counts its calls and how many of them run at one time. */
async function countingHost(): Promise<{ host: McpHost; seen: () => Promise<Seen> }> {
  const budgets = { max_concurrency: CONCURRENCY, tool_timeout_ms: 60_000 };
  const host = await openHost([notingServer('counting', 'counting.mjs', { budgets }).record]);
  const seen = async () => {
    const { content } = await callOf(await inject(host.guest()), encodedName('counting', 'seen'));
    return JSON.parse(content?.[0]?.text ?? '') as Seen;
  };
  return { host, seen };
}

describe(`${CALLS} calls at once, at a server with max_concurrency ${CONCURRENCY}`, () => {
  it('submitted by one guest: never more than 4 in flight, and all finish', async () => {
    const { host, seen } = await countingHost();
    const args = ['counting', 'work', '{"label":"x","ms":3}', String(CALLS)];
    const run = await runFixture('c/mcp.wasm', { args, mcp: host.guest(), events: host.events, audit: host.audit });
    expect(run.stdout).toBe(`counting offers 2 tools\n${CALLS} calls, 0 failed\n`);
    expect(await seen()).toMatchObject({ calls: CALLS, most: CONCURRENCY });
    expect(host.invocations.filter(({ tool, outcome }) => tool === 'work' && outcome === 'ok')).toHaveLength(CALLS);
  });

  it('from one turn of the model: the same, in its order, and answered in its order [mcp.order]', async () => {
    const { host, seen } = await countingHost();
    const calls = Array.from({ length: CALLS }, (_, index) =>
      call(`call_${index}`, work, { label: String(index), ms: index % 7 }),
    );
    const guest = await openGuest(onHost(host, callsThenDone(...calls)));
    const fd = await newSession(guest);
    expect(await setParam(guest, fd, 'max_total_tool_calls', CALLS)).toBe(0);
    expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
    const labels = calls.map(({ arguments: { label } }) => label);
    expect(await seen()).toMatchObject({ calls: CALLS, most: CONCURRENCY, order: labels });
    expect(toolMessages(guest, 1).map(({ tool_call_id, content }) => [tool_call_id, content])).toEqual(
      calls.map(({ id, arguments: { label } }) => [id, `{"content":[{"text":"${label}","type":"text"}]}`]),
    );
  });

  it('of each of two guests: they take turns, though one came first with all of its own', async () => {
    const { host, seen } = await countingHost();
    const blocked = new AbortController();
    const blocker = host.guest({}, 'run-0');
    const about = {
      serverId: 'counting',
      tool: 'work',
      arguments: '{"label":"blocker","ms":600000}',
      session: 'mcp-1',
    };
    const blockers = Array.from({ length: CONCURRENCY }, (_, index) =>
      blocker.call({ ...about, callId: `call-${index}` }, blocked.signal),
    );
    const queued = (count: number) =>
      eventually(() => expect(host.pool.stats()).toMatchObject({ callsInFlight: CONCURRENCY, callsQueued: count }));
    await queued(0);
    const start = (label: string) =>
      runFixture('c/mcp.wasm', {
        args: ['counting', 'work', JSON.stringify({ label }), String(CALLS)],
        mcp: host.guest({}, `run-${label}`),
      });
    const first = start('a');
    await queued(CALLS);
    const second = start('b');
    await queued(2 * CALLS);
    blocked.abort();
    await Promise.all(blockers);
    for (const run of [first, second]) expect((await run).stdout).toContain(`${CALLS} calls, 0 failed`);
    const { order } = await seen();
    expect(order).toHaveLength(CONCURRENCY + 2 * CALLS);
    let ahead = 0;
    for (const label of order.slice(CONCURRENCY)) {
      ahead += label === 'a' ? 1 : -1;
      expect(Math.abs(ahead)).toBeLessThanOrEqual(CONCURRENCY);
    }
    expect(ahead).toBe(0);
  });
});
