import { describe, expect, it } from 'vitest';
import { errno } from '../../src/abi/errno.ts';
import { type McpHost, openHost } from '../bridge/mcp-host.ts';
import { eventually, stdioRecord } from '../pool/pool-samples.ts';
import { sampleRecord } from '../protocol/record-samples.ts';
import { epollWait, fdCommand, fdGet, newEpoll, setNonblocking, untilReady } from '../support/chat-calls.ts';
import { useGuests } from '../support/use-guest.ts';
import {
  callInto,
  callTool,
  errorCode,
  listTools,
  openServer,
  result,
  resultCode,
  submit,
  submitted,
} from './mcp-calls.ts';
import { notingServer } from './noting-server.ts';

const openGuest = useGuests();
const [IN, OUT, ERR, HUP] = [1, 4, 8, 16];

const guestOf = (host: McpHost, task = {}, limits = {}) => openGuest({ mcp: () => host.side(task), limits, pages: 32 });
const tinyHost = () => openHost([stdioRecord('tiny', 'tiny.mjs')]);
const echoed = (text: string) => `{"content":[{"text":${JSON.stringify(text)},"type":"text"}]}`;

describe('mcp_open', () => {
  it('gives a session that is always writable [mcp.open]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    expect(await fdGet(guest, fd, fdCommand.GET_KIND)).toBe('{"kind":"McpSession"}');
    expect(await epollWait(guest, await newEpoll(guest, [fd, IN | OUT]), 0)).toEqual([{ fd, events: OUT }]);
    expect(await guest.call('mcp_close', fd)).toBe(0);
  });

  it('does not start the server: that is left to the first use [mcp.open]', async () => {
    const host = await tinyHost();
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'tiny');
    expect(host.pool.stats().subprocesses).toBe(0);
    await callTool(guest, fd, 'pid');
    expect(host.pool.stats().subprocesses).toBe(1);
    await guest.call('mcp_close', fd);
    expect(host.pool.stats().subprocesses).toBe(1);
  });

  it('may be done with a server that the default set does not have [mcp.open]', async () => {
    const guest = await guestOf(await tinyHost(), { defaultServerIds: [], allowedServerIds: ['tiny'] });
    expect(await callTool(guest, await openServer(guest, 'tiny'), 'echo', { message: 'hi' })).toBe(echoed('hi'));
  });
});

describe('mcp_list_tools', () => {
  it('gives the tools that policy lets this guest call, in canonical JSON [mcp.list]', async () => {
    const guest = await guestOf(await tinyHost(), { toolAllowlist: ['echo', 'pid', 'fail'], toolDenylist: ['fail'] });
    expect(await listTools(guest, await openServer(guest, 'tiny'))).toBe(
      '{"server_id":"tiny","tools":[' +
        '{"description":"echo","inputSchema":{"properties":{"message":{"type":"string"}},"required":["message"],"type":"object"},"name":"echo"},' +
        '{"description":"pid","inputSchema":{"type":"object"},"name":"pid"}]}',
    );
  });

  it('follows the registry [mcp.list]', async () => {
    const host = await tinyHost();
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'tiny');
    const names = async () =>
      (JSON.parse(await listTools(guest, fd)).tools as { name: string }[]).map(({ name }) => name);
    expect(await names()).toHaveLength(5);
    await host.upsert(Object.freeze({ ...stdioRecord('tiny', 'tiny.mjs'), allowed_tools: ['p*'] }));
    expect(await names()).toEqual(['pid']);
  });

  it('keeps to the out-buffer convention [mcp.list]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    const out = guest.heap.out(4096).offer(10);
    expect(await guest.call('mcp_list_tools', fd, ...out.args)).toBe(-errno.ENOSPC);
    const needed = out.length;
    expect(out.isIntactBeyond(0)).toBe(true);
    expect(await guest.call('mcp_list_tools', fd, ...out.offer(needed).args)).toBe(needed);
    expect(JSON.parse(out.text())).toMatchObject({ server_id: 'tiny' });
  });
});

describe('mcp_registry_list and mcp_registry_get', () => {
  const secret = 'sk-registry-0123456789';
  const records = [
    sampleRecord('b', {
      display_name: 'Bee',
      stdio: { command: '/opt/b', args: ['--flag'], env: { API_TOKEN: secret } },
      allowed_tools: ['read_*'],
    }),
    sampleRecord('a', {
      transport: 'streamable_http',
      stdio: undefined,
      http: { url: 'https://example.test/mcp', headers: { authorization: `Bearer ${secret}` } },
      budgets: { tool_timeout_ms: 500, max_concurrency: 2 },
    }),
    sampleRecord('closed', { allowed_tools: [] }),
    sampleRecord('foreign'),
  ];

  it('tell what this task may use, never how it is reached [mcp.registry]', async () => {
    const host = await openHost(records);
    const guest = await guestOf(host, { defaultServerIds: ['b'], allowedServerIds: ['b', 'a', 'closed', 'gone'] });
    const out = guest.heap.out(4096);
    const list = await guest.call('mcp_registry_list', ...out.args);
    expect(list).toBe(out.length);
    expect(out.text()).toBe(
      `{"revision":${host.registry.snapshot()?.revision},"servers":[` +
        '{"display_name":"a","server_id":"a","transport":"streamable_http"},' +
        '{"display_name":"Bee","server_id":"b","transport":"stdio"}]}',
    );
    const get = async (id: string) => {
      expect(await guest.call('mcp_registry_get', ...guest.text(id), ...out.offer(4096).args)).toBe(out.length);
      return out.text();
    };
    expect(await get('a')).toBe(
      '{"allowed_tools":["*"],"budgets":{"connect_timeout_ms":60000,"max_concurrency":2,"max_tool_output_bytes":65536,"tool_timeout_ms":500},' +
        '"display_name":"a","server_id":"a","transport":"streamable_http"}',
    );
    expect(JSON.parse(await get('b'))).toMatchObject({ display_name: 'Bee', allowed_tools: ['read_*'] });
    expect(guest.heap.bytes.includes(secret)).toBe(false);
    expect(guest.heap.bytes.includes('/opt/b')).toBe(false);
  });
});

describe('mcp_call_tool', () => {
  it('gives the result in canonical JSON [mcp.call]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    expect(await callTool(guest, fd, 'echo', { message: 'grüße 😀' })).toBe(echoed('grüße 😀'));
    expect(await callTool(guest, fd, 'structured')).toBe('{"content":[],"structuredContent":{"answer":42}}');
    expect(await callTool(guest, fd, 'pid', '{}')).toMatch(/^\{"content":\[\{"text":"\d+","type":"text"\}\]\}$/);
  });

  it.each<[string, string, string, string]>([
    ['arguments that break the schema', 'echo', '{"message":1}', 'mcp_invalid_arguments'],
    ['arguments that are no object', 'echo', '[]', 'mcp_invalid_arguments'],
    ['arguments that are no JSON', 'echo', '{', 'mcp_invalid_arguments'],
    ['a tool that is not there', 'nothing', '{}', 'mcp_invalid_arguments'],
    ['a tool that policy denies', 'environment', '{}', 'mcp_policy_denied'],
    ['a tool that reports a failure', 'fail', '{}', 'mcp_tool_error'],
  ])('answers %s with a result, not an errno [mcp.call.failure]', async (_, tool, args, code) => {
    const guest = await guestOf(await tinyHost(), { toolDenylist: ['environment'] });
    expect(errorCode(await callTool(guest, await openServer(guest, 'tiny'), tool, args))).toBe(code);
  });

  it('answers a revoked or dead server with a result, not an errno [mcp.call.failure]', async () => {
    const host = await openHost([
      stdioRecord('tiny', 'tiny.mjs'),
      sampleRecord('dead', { stdio: { command: '/nonexistent/server' } }),
    ]);
    const guest = await guestOf(host);
    const [tiny, dead] = [await openServer(guest, 'tiny'), await openServer(guest, 'dead')];
    expect(errorCode(await callTool(guest, dead, 'x'))).toBe('mcp_unavailable');
    await host.remove('tiny');
    expect(errorCode(await callTool(guest, tiny, 'pid'))).toBe('mcp_policy_denied');
  });

  it('takes arguments with invalid UTF-8 as the ABI says: replaced [mcp.call]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    const bytes = Buffer.concat([Buffer.from('{"message":"a'), Buffer.from([0xff]), Buffer.from('b"}')]);
    const out = guest.heap.out(256);
    await guest.call('mcp_call_tool', fd, ...guest.text('echo'), ...guest.text(bytes), ...out.args);
    expect(out.text()).toBe(echoed('a\ufffdb'));
  });

  it('leaves its trail under the session’s descriptor [mcp.call] [audit.calls]', async () => {
    const host = await tinyHost();
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'tiny');
    await callTool(guest, fd, 'echo', { message: 'a secret' });
    expect(host.invocations).toEqual([
      expect.objectContaining({ source: 'mcp', session: `mcp-${fd}`, server: 'tiny', tool: 'echo', outcome: 'ok' }),
    ]);
    expect(host.trail.map(({ event }) => event)).toEqual(['tool_call.started', 'tool_call.finished']);
    expect(JSON.stringify(host.trail)).not.toContain('a secret');
  });
});

describe('a call never executes twice', () => {
  const work = (label: string) => ({ label });
  const small = 8;

  async function counting() {
    const server = notingServer('counting', 'counting.mjs');
    const guest = await guestOf(await openHost([server.record]));
    return { guest, lines: server.lines, fd: await openServer(guest, 'counting') };
  }

  it('after ENOSPC: the same call fetches the result, however often it has to ask [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    const first = await callInto(guest, fd, 'work', work('a'), small);
    expect([first.rc, first.out.length]).toEqual([-errno.ENOSPC, echoed('a').length]);
    const again = await callInto(guest, fd, 'work', work('a'), small + 1);
    expect([again.rc, again.out.length]).toEqual([-errno.ENOSPC, echoed('a').length]);
    const none = await callInto(guest, fd, 'work', work('a'), 0);
    expect(none.rc).toBe(-errno.ENOSPC);
    const fetched = await callInto(guest, fd, 'work', work('a'), echoed('a').length);
    expect([fetched.rc, fetched.out.text()]).toEqual([echoed('a').length, echoed('a')]);
    expect(lines()).toEqual(['a']);
  });

  it('and a result that was taken is gone: the same call is a new one [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await callTool(guest, fd, 'work', work('a'));
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it.each<[string, string, unknown]>([
    ['other arguments', 'work', work('b')],
    ['the same arguments in other bytes', 'work', '{ "label":"a"}'],
    ['another tool', 'seen', ''],
  ])('a different call drops it: %s [mcp.once]', async (_, tool, args) => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await callTool(guest, fd, tool, args);
    const before = lines().length;
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toHaveLength(before + 1);
  });

  it('a different call that fails drops it too [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    expect(errorCode(await callTool(guest, fd, 'nothing'))).toBe('mcp_invalid_arguments');
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('closing drops it [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await guest.call('mcp_close', fd);
    expect((await callInto(guest, fd, 'work', work('a'), 64)).rc).toBe(-errno.EBADF);
    await callTool(guest, await openServer(guest, 'counting'), 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('it waits on its own session: another one of the same server knows nothing of it [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    const other = await openServer(guest, 'counting');
    await callInto(guest, fd, 'work', work('a'), small);
    await callTool(guest, other, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
    await callTool(guest, fd, 'work', work('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('submitting the same call, or listing, neither takes nor drops it [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    await callInto(guest, fd, 'work', work('a'), small);
    await result(guest, await submitted(guest, fd, 'work', work('a')));
    await listTools(guest, fd);
    expect(lines()).toEqual(['a', 'a']);
    expect(await callTool(guest, fd, 'work', work('a'))).toBe(echoed('a'));
    expect(lines()).toEqual(['a', 'a']);
  });

  it('a call whose buffer leaves the memory does not execute at all [mcp.once]', async () => {
    const { guest, fd, lines } = await counting();
    const [tool, args] = [guest.text('work'), guest.text('{"label":"a"}')];
    const length = guest.heap.word(64);
    const beyond = guest.heap.memory.buffer.byteLength - 8;
    expect(await guest.call('mcp_call_tool', fd, ...tool, ...args, beyond, length)).toBe(-errno.EFAULT);
    expect(await guest.call('mcp_call_tool', fd, ...tool, ...args, 1024, beyond + 6)).toBe(-errno.EFAULT);
    await callTool(guest, fd, 'work', work('b'));
    expect(lines()).toEqual(['b']);
  });

  it('a failed call is held and fetched like any other [mcp.once]', async () => {
    const server = notingServer('mortal', 'mid-call.mjs');
    const guest = await guestOf(await openHost([server.record]));
    const fd = await openServer(guest, 'mortal');
    expect((await callInto(guest, fd, 'die', '', small)).rc).toBe(-errno.ENOSPC);
    expect(errorCode(await callTool(guest, fd, 'die'))).toBe('mcp_unavailable');
    expect(server.lines()).toEqual(['die']);
  });
});

describe('mcp_submit and mcp_result', () => {
  it('run calls side by side, each with its own result, the same on every call [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    const calls = [];
    for (const message of ['one', 'two', 'three']) calls.push(await submitted(guest, fd, 'echo', { message }));
    expect(await fdGet(guest, calls[0] as number, fdCommand.GET_KIND)).toBe('{"kind":"McpCall"}');
    const texts = ['three', 'two', 'one', 'one'];
    for (const [index, call] of [calls[2], calls[1], calls[0], calls[0]].entries()) {
      expect(await result(guest, call as number)).toBe(echoed(texts[index] as string));
    }
  });

  it('wait for a result, and nothing is consumed by ENOSPC [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost());
    const call = await submitted(guest, await openServer(guest, 'tiny'), 'echo', { message: 'x' });
    const out = guest.heap.out(256).offer(3);
    expect(await guest.call('mcp_result', call, ...out.args)).toBe(-errno.ENOSPC);
    expect([out.length, out.isIntactBeyond(0)]).toEqual([echoed('x').length, true]);
    expect(await result(guest, call)).toBe(echoed('x'));
  });

  it('give a failed call as a result [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost(), { toolDenylist: ['environment'] });
    const fd = await openServer(guest, 'tiny');
    for (const [tool, code] of [
      ['environment', 'mcp_policy_denied'],
      ['fail', 'mcp_tool_error'],
      ['nothing', 'mcp_invalid_arguments'],
    ] as const) {
      expect(errorCode(await result(guest, await submitted(guest, fd, tool)))).toBe(code);
    }
  });

  it('have metrics: how long it took and how large the result is [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost());
    const call = await submitted(guest, await openServer(guest, 'tiny'), 'echo', { message: 'x' });
    await result(guest, call);
    const metrics = JSON.parse(await fdGet(guest, call, fdCommand.GET_METRICS));
    expect(metrics).toEqual({ duration_ms: expect.any(Number), result_bytes: echoed('x').length });
  });

  it('do not wait with O_NONBLOCK, which a call inherits; epoll tells when it is done [mcp.nonblocking]', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record, stdioRecord('tiny', 'tiny.mjs')]);
    const guest = await guestOf(host);
    const [hanging, tiny] = [await openServer(guest, 'hanging'), await openServer(guest, 'tiny')];
    for (const fd of [hanging, tiny]) await setNonblocking(guest, fd);
    const stuck = await submitted(guest, hanging, 'hang');
    const call = await submitted(guest, tiny, 'echo', { message: 'x' });
    expect(await fdGet(guest, call, fdCommand.GET_FLAGS)).toBe('{"flags":["O_NONBLOCK"]}');
    const epfd = await newEpoll(guest, [stuck, IN], [call, IN]);
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
    expect(await resultCode(guest, call)).toBe(-errno.EAGAIN);
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: call, events: IN }]);
    // Level-triggered, and an ADD after the end reports at once.
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: call, events: IN }]);
    expect(await untilReady(guest, call)).toBe(IN);
    expect(await result(guest, call)).toBe(echoed('x'));
    expect(await resultCode(guest, stuck)).toBe(-errno.EAGAIN);
    expect(await guest.call('mcp_close', call)).toBe(0);
    expect(await epollWait(guest, epfd, 0)).toEqual([]);
  });

  it('are refused at limits.max_pending_calls, until one has ended [mcp.submit.limit]', async () => {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record, stdioRecord('tiny', 'tiny.mjs')]);
    const guest = await guestOf(host, {}, { max_pending_calls: 2 });
    const [hanging, tiny] = [await openServer(guest, 'hanging'), await openServer(guest, 'tiny')];
    const first = await submitted(guest, hanging, 'hang');
    const second = await submitted(guest, tiny, 'pid');
    expect(await submit(guest, tiny, 'pid')).toBe(-errno.EAGAIN);
    await result(guest, second);
    const third = await submitted(guest, hanging, 'hang');
    expect(await submit(guest, tiny, 'pid')).toBe(-errno.EAGAIN);
    await guest.call('spear_fd_cancel', first);
    await result(guest, await submitted(guest, tiny, 'pid'));
    await guest.call('mcp_close', third);
    await result(guest, await submitted(guest, tiny, 'pid'));
  });

  it('outlive the session that submitted them [mcp.submit]', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    const call = await submitted(guest, fd, 'echo', { message: 'x' });
    await guest.call('mcp_close', fd);
    expect(await result(guest, call)).toBe(echoed('x'));
  });
});

describe('canceling a call', () => {
  async function stuck() {
    const server = notingServer('hanging', 'mid-call.mjs');
    const host = await openHost([server.record]);
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'hanging');
    const call = await submitted(guest, fd, 'hang');
    await server.until('call');
    return { server, host, guest, fd, call };
  }

  it('with spear_fd_cancel: ERR and HUP, ECANCELED, and the server is told [mcp.cancel]', async () => {
    const { guest, call, server, host } = await stuck();
    const epfd = await newEpoll(guest, [call, IN]);
    expect(await guest.call('spear_fd_cancel', call)).toBe(0);
    expect(await epollWait(guest, epfd, -1)).toEqual([{ fd: call, events: ERR | HUP }]);
    expect(await resultCode(guest, call)).toBe(-errno.ECANCELED);
    await server.until('call', 'cancelled');
    expect(await guest.call('spear_fd_cancel', call)).toBe(0);
    await eventually(() => expect(host.invocations.map(({ outcome }) => outcome)).toEqual(['mcp_cancelled']));
  });

  it.each(['mcp_close', 'cchat_close', 'spear_epoll_close'] as const)(
    'with %s: the server is told [mcp.cancel]',
    async (close) => {
      const { guest, call, server } = await stuck();
      expect(await guest.call(close, call)).toBe(0);
      await server.until('call', 'cancelled');
      expect(await resultCode(guest, call)).toBe(-errno.EBADF);
    },
  );

  it('leaves the others alone [mcp.cancel]', async () => {
    const { guest, call, server, fd } = await stuck();
    const other = await submitted(guest, fd, 'pid');
    await guest.call('spear_fd_cancel', call);
    expect(errorCode(await result(guest, other))).toBeUndefined();
    await server.until('call', 'cancelled');
  });

  it('that has ended changes nothing [mcp.cancel]', async () => {
    const guest = await guestOf(await tinyHost());
    const call = await submitted(guest, await openServer(guest, 'tiny'), 'echo', { message: 'x' });
    await result(guest, call);
    expect(await guest.call('spear_fd_cancel', call)).toBe(0);
    expect(await result(guest, call)).toBe(echoed('x'));
  });

  it('happens to everything that is open when the guest ends [mcp.cancel]', async () => {
    const { guest, server, host } = await stuck();
    await guest.close();
    await server.until('call', 'cancelled');
    expect(host.told('tool_call.finished').map(({ reason }) => reason)).toEqual(['mcp_cancelled']);
  });
});
