import { describe, expect, it } from 'vitest';
import { encodedName } from '../../src/bridge/tool-names.ts';
import { callOf, inject, type McpHost, never, openHost } from '../bridge/mcp-host.ts';
import { eventually } from '../pool/pool-samples.ts';
import { AUTO_TOOL_CALL, answer, newSession, setParam } from '../support/chat-calls.ts';
import { runFixture } from '../support/run-fixture.ts';
import { useGuests } from '../support/use-guest.ts';
import { call, callsThenDone, onHost, toolMessages } from './chat-sends.ts';
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
  it('submitted by one guest: never more than 4 in flight, and all finish [mcp.many]', async () => {
    const { host, seen } = await countingHost();
    const args = ['counting', 'work', '{"label":"x","ms":3}', String(CALLS)];
    const run = await runFixture('c/mcp.wasm', { args, mcp: host.guest(), events: host.events, audit: host.audit });
    expect(run.stdout).toBe(`counting offers 2 tools\n${CALLS} calls, 0 failed\n`);
    expect(await seen()).toMatchObject({ calls: CALLS, most: CONCURRENCY });
    expect(host.invocations.filter(({ tool, outcome }) => tool === 'work' && outcome === 'ok')).toHaveLength(CALLS);
  });

  it('from one turn of the model: the same, in its order, and answered in its order [mcp.many] [mcp.order]', async () => {
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

  it('of two guests: they take turns, though one came first with all of its own [mcp.fair]', async () => {
    const { host, seen } = await countingHost();
    const guests = { a: host.guest({}, 'run-a'), b: host.guest({}, 'run-b') };
    const submit = (run: 'a' | 'b', label: string, ms: number, signal: AbortSignal) =>
      guests[run].call(
        {
          serverId: 'counting',
          tool: 'work',
          arguments: JSON.stringify({ label, ms }),
          callId: label,
          session: 'mcp-1',
        },
        signal,
      );
    const blocked = new AbortController();
    const blockers = Array.from({ length: CONCURRENCY }, () => submit('a', 'blocker', 600_000, blocked.signal));
    await eventually(() => expect(host.pool.stats().callsInFlight).toBe(CONCURRENCY));
    const each = CALLS / 2;
    const ofA = Array.from({ length: each }, () => submit('a', 'a', 0, never));
    await eventually(() => expect(host.pool.stats().callsQueued).toBe(each));
    const ofB = Array.from({ length: each }, () => submit('b', 'b', 0, never));
    await eventually(() => expect(host.pool.stats().callsQueued).toBe(CALLS));
    blocked.abort();
    await Promise.all([...blockers, ...ofA, ...ofB]);
    const { order } = await seen();
    const after = order.slice(CONCURRENCY);
    expect(after).toHaveLength(CALLS);
    let ahead = 0;
    for (const label of after) {
      ahead += label === 'a' ? 1 : -1;
      expect(Math.abs(ahead)).toBeLessThanOrEqual(CONCURRENCY);
    }
  });

  it('of two guests on threads of their own: both finish, and neither waits for all of the other [mcp.fair]', async () => {
    const { host, seen } = await countingHost();
    const start = (label: string) =>
      runFixture('c/mcp.wasm', {
        args: ['counting', 'work', JSON.stringify({ label, ms: 5 }), String(CALLS)],
        mcp: host.guest({}, `run-${label}`),
      });
    const runs = await Promise.all([start('a'), start('b')]);
    expect(runs.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
    const { order, most, calls } = await seen();
    expect({ calls, most }).toEqual({ calls: 2 * CALLS, most: CONCURRENCY });
    const last = { a: order.lastIndexOf('a'), b: order.lastIndexOf('b') };
    expect(Math.min(last.a, last.b)).toBeGreaterThan(CALLS);
  });
});
