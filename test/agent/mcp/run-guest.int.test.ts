import { describe, expect, it } from 'vitest';
import { inEnoughTime } from '../../support/enough-time.ts';
import { runFixture } from '../../support/run-fixture.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { openHost } from './mcp-host.ts';
import { notingServer } from './noting-server.ts';

const echoed = '{"content":[{"text":"hi","type":"text"}]}';

describe('a guest in C', () => {
  it('opens a server, lists its tools, and calls one', async () => {
    const host = await openHost([stdioRecord('tiny', 'tiny.mjs')]);
    const args = ['tiny', 'echo', '{"message":"hi"}', '1'];
    const run = await runFixture('c/mcp.wasm', { args, mcp: host.guest() });
    expect(run.stdout).toBe(`tiny offers 5 tools\n${echoed}\n1 calls, 0 failed\n`);
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0, stderr: '' });
  });

  it('is told EACCES where it has no MCP', async () => {
    const run = await runFixture('c/mcp.wasm', { args: ['tiny', 'echo', '{}'] });
    expect(run).toMatchObject({ exitCode: 1, stderr: 'cannot open tiny: errno 13\n' });
  });

  it('fetches a result that did not fit, and the call ran once [mcp.once]', async () => {
    const server = notingServer('counting', 'counting.mjs');
    const host = await openHost([server.record]);
    const run = await runFixture('c/test/mcp-call.wasm', {
      args: ['counting', 'work', '{"label":"hi"}'],
      mcp: host.guest(),
    });
    expect(run.stdout).toBe(`calling\nfirst: -28, needs ${echoed.length}\nsecond: ${echoed.length} ${echoed}\n`);
    expect(server.lines()).toEqual(['hi']);
  });

  it.each(['result', 'epoll'])('that polls %s without ever suspending gets there [mcp.nonblocking]', async (how) => {
    const host = await openHost([stdioRecord('tiny', 'tiny.mjs')]);
    const args = ['tiny', 'echo', '{"message":"hi"}', how];
    const run = await runFixture('c/test/mcp-poll.wasm', { args, mcp: host.guest(), limits: { timeout_ms: 50_000 } });
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0, stdout: `polling\n${echoed}\n` });
  });
});

describe('a guest that is ended in the middle of a call', () => {
  it.each<[string, string, string[], string[]]>([
    ['a blocking one', 'c/test/mcp-call.wasm', [], ['call']],
    ['several submitted ones', 'c/mcp.wasm', ['3'], ['call', 'call', 'call']],
    ['one that it polls without suspending', 'c/test/mcp-poll.wasm', ['result'], ['call']],
  ])('cancels it at the server: %s', async (_, wasm, more, calls) => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record]);
    const interrupt = new AbortController();
    const running = runFixture(wasm, {
      args: ['hanging', 'hang', '{}', ...more],
      mcp: host.guest({}, 'run-9'),
      signal: interrupt.signal,
    });
    await server.until(...calls);
    interrupt.abort();
    expect(await running).toMatchObject({ reason: 'interrupted', exitCode: null });
    // The guest's end is told when its calls have ended.
    const outcomes = calls.map(() => ['run-9', 'hang', 'mcp_cancelled']);
    expect(host.invocations.map(({ run, tool, outcome }) => [run, tool, outcome])).toEqual(outcomes);
    await server.until(...calls, ...calls.map(() => 'cancelled'));
    expect(host.pool.stats().callsInFlight).toBe(0);
  });

  it('cancels it when its own deadline has passed', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record]);
    await host.pool.listTools(server.record);
    const args = ['hanging', 'hang', '{}'];
    await inEnoughTime(1_500, async (ms) => {
      const limits = { timeout_ms: ms };
      const run = await runFixture('c/test/mcp-call.wasm', { args, mcp: host.guest(), limits });
      expect(run.reason).toBe('deadline');
      expect(server.lines()).not.toEqual([]);
    });
    await server.until('call', 'cancelled');
  });

  it('cancels the calls of its chat, too', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record]);
    const interrupt = new AbortController();
    const reply = { tool_calls: [{ id: 'a', type: 'function', function: { name: 'hanging_hang', arguments: '{}' } }] };
    const backend = {
      name: 'fake',
      model: 'fake',
      complete: async () => ({ choices: [{ message: { role: 'assistant', content: null, ...reply } }] }),
      close: async () => {},
    };
    const running = runFixture('c/files.wasm', { backend, mcp: host.guest(), signal: interrupt.signal });
    await server.until('call');
    interrupt.abort();
    expect((await running).reason).toBe('interrupted');
    await server.until('call', 'cancelled');
  });

  it('leaves the calls of another guest alone', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record]);
    const [first, second] = [new AbortController(), new AbortController()];
    const start = (run: string, { signal }: AbortController) =>
      runFixture('c/test/mcp-call.wasm', { args: ['hanging', 'hang', '{}'], mcp: host.guest({}, run), signal });
    const runs = [start('run-1', first), start('run-2', second)];
    await server.until('call', 'call');
    first.abort();
    await runs[0];
    await server.until('call', 'call', 'cancelled');
    expect(host.invocations.map(({ run }) => run)).toEqual(['run-1']);
    expect(host.pool.stats().callsInFlight).toBe(1);
    second.abort();
    await runs[1];
  });
});
