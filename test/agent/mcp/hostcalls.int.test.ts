import { describe, expect, it } from 'vitest';
import { errno } from '../../../src/runtime/abi/errno.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { epollWait, fdCommand, fdGet, newEpoll } from '../../support/chat-calls.ts';
import { hasPointers } from '../../support/guest-binding.ts';
import { useGuests } from '../../support/use-guest.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { callTool, errorCode, listTools, openServer } from './mcp-calls.ts';
import { type McpHost, openHost } from './mcp-host.ts';

const openGuest = useGuests();
const [IN, OUT] = [1, 4];

const guestOf = (host: McpHost, task = {}, limits = {}) => openGuest({ mcp: () => host.side(task), limits, pages: 32 });
const tinyHost = () => openHost([stdioRecord('tiny', 'tiny.mjs')]);
const echoed = (text: string) => `{"content":[{"text":${JSON.stringify(text)},"type":"text"}]}`;

describe('mcp_open', () => {
  it('gives a session that is always writable', async () => {
    const guest = await guestOf(await tinyHost());
    const fd = await openServer(guest, 'tiny');
    expect(await fdGet(guest, fd, fdCommand.GET_KIND)).toBe('{"kind":"McpSession"}');
    expect(await epollWait(guest, await newEpoll(guest, [fd, IN | OUT]), 0)).toEqual([{ fd, events: OUT }]);
    expect(await guest.call('mcp_close', fd)).toBe(0);
  });

  it('does not start the server: that is left to the first use', async () => {
    const host = await tinyHost();
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'tiny');
    expect(host.pool.stats().subprocesses).toBe(0);
    await callTool(guest, fd, 'pid');
    expect(host.pool.stats().subprocesses).toBe(1);
    await guest.call('mcp_close', fd);
    expect(host.pool.stats().subprocesses).toBe(1);
  });

  it('may be done with a server that the default set does not have', async () => {
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

  if (hasPointers())
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
      '{"allowed_tools":["*"],"budgets":{"connect_timeout_ms":60000,"max_concurrency":2,"max_tool_output_bytes":65536,"max_tool_timeout_ms":0,"tool_timeout_ms":500},' +
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
    await callTool(guest, fd, 'echo', { message: 'hi', token: 'a secret' });
    expect(host.invocations).toEqual([
      expect.objectContaining({ source: 'mcp', session: `mcp-${fd}`, server: 'tiny', tool: 'echo', outcome: 'ok' }),
    ]);
    expect(host.trail.map(({ event }) => event)).toEqual(['tool_call.started', 'tool_call.finished']);
    expect(JSON.stringify(host.trail)).not.toContain('a secret');
  });
});
