import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import { errno } from '../../../src/runtime/abi/errno.ts';
import type { TaskPolicy } from '../../../src/runtime/port/policy-layers.ts';
import { hasPointers } from '../../support/guest-binding.ts';
import type { TestGuest } from '../../support/test-guest.ts';
import { useGuests } from '../../support/use-guest.ts';
import { stdioRecord, tempDir } from './client/pool-samples.ts';
import { errorCode, openServer } from './mcp-calls.ts';
import { type McpHost, openHost } from './mcp-host.ts';
import { linesOf } from './noting-server.ts';

const openGuest = useGuests();
const guestOf = (host: McpHost, task: Partial<TaskPolicy> = {}) =>
  openGuest({ mcp: () => host.side(task), limits: {}, pages: 32 });

const allowed = {
  allowed_tools: Object.freeze([]),
  allowed_resources: Object.freeze(['notes://notes/*', 'notes://days/*']),
  allowed_prompts: Object.freeze(['poem', 'extra_*']),
};

function noting(fields: object = {}) {
  const trail = `${tempDir()}/trail`;
  const record = Object.freeze({
    ...stdioRecord('offers', 'offers.mjs', { env: { TRAIL: trail } }),
    ...allowed,
    ...fields,
  });
  return { record, lines: () => linesOf(trail) };
}

type Name = 'mcp_list_resources' | 'mcp_list_prompts';

async function listed(guest: TestGuest, call: Name, fd: number): Promise<JsonObject> {
  const out = guest.heap.out(16_384);
  expect(await guest.call(call, fd, ...out.args)).toBe(out.length);
  return JSON.parse(out.text()) as JsonObject;
}

async function readInto(guest: TestGuest, fd: number, uri: string, capacity: number) {
  const out = guest.heap.out(capacity);
  const rc = await guest.call('mcp_read_resource', fd, ...guest.text(uri), ...out.args);
  return { rc, out };
}

async function read(guest: TestGuest, fd: number, uri: string): Promise<string> {
  const { rc, out } = await readInto(guest, fd, uri, 16_384);
  expect(rc).toBe(out.length);
  return out.text();
}

async function prompt(guest: TestGuest, fd: number, name: string, args: string): Promise<string> {
  const out = guest.heap.out(16_384);
  expect(await guest.call('mcp_get_prompt', fd, ...guest.text(name), ...guest.text(args), ...out.args)).toBe(
    out.length,
  );
  return out.text();
}

const risks =
  '{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"offers","version":"1.0.0"}},' +
  '"contents":[{"mimeType":"text/plain","text":"This is risks.","uri":"notes://notes/risks"}]}';

describe('resources and prompts of a server', () => {
  it('are listed as far as policy lets this guest have them, and are had [mcp.offers]', async () => {
    const host = await openHost([noting().record]);
    const guest = await guestOf(host, {
      resourceLists: { allow: ['notes://*'], deny: ['*/large', '*/hold', '*/environment'] },
    });
    for (const feature of ['mcp.resources', 'mcp.prompts']) {
      expect(await guest.call('spear_feature', ...guest.text(feature))).toBe(1);
    }
    const fd = await openServer(guest, 'offers');
    expect(await listed(guest, 'mcp_list_resources', fd)).toEqual({
      resources: ['roadmap', 'risks'].map((name) => ({
        description: `the note ${name}`,
        mimeType: 'text/plain',
        name,
        uri: `notes://notes/${name}`,
      })),
      server_id: 'offers',
      templates: [{ description: 'the note of a day', name: 'day', uriTemplate: 'notes://days/{day}' }],
    });
    const { prompts } = await listed(guest, 'mcp_list_prompts', fd);
    expect(prompts).toMatchObject([{ arguments: [{ name: 'tone', required: true }], name: 'poem' }]);
    expect(await read(guest, fd, 'notes://notes/risks')).toBe(risks);
    expect(await read(guest, fd, 'notes://days/today')).toContain('On today nothing happened.');
    expect(await prompt(guest, fd, 'poem', '{"tone":"sad"}')).toContain('Write a sad poem.');
  });

  it.each([
    ['notes://private/salaries', 'mcp_policy_denied'],
    ['notes://notes/large', 'mcp_policy_denied'],
    ['notes://notes/l%61rge', 'mcp_policy_denied'],
    ['notes://notes/../private/salaries', 'mcp_invalid_arguments'],
    ['notes://notes/%2e%2e/private/salaries', 'mcp_invalid_arguments'],
    ['notes://notes/..%2fprivate/salaries', 'mcp_invalid_arguments'],
    ['roadmap', 'mcp_invalid_arguments'],
    ['', 'mcp_invalid_arguments'],
  ])('are refused by a result where policy or the uri is against it: %s [mcp.offers.policy]', async (uri, code) => {
    const { record, lines } = noting();
    const host = await openHost([record]);
    const guest = await guestOf(host, { resourceLists: { allow: null, deny: ['*/large'] } });
    const fd = await openServer(guest, 'offers');
    expect(errorCode(await read(guest, fd, uri))).toBe(code);
    expect(errorCode(await prompt(guest, fd, 'report', '{"tone":"x"}'))).toBe('mcp_policy_denied');
    expect(errorCode(await prompt(guest, fd, 'poem', '{"tone":1}'))).toBe('mcp_invalid_arguments');
    expect(errorCode(await prompt(guest, fd, 'poem', '[]'))).toBe('mcp_invalid_arguments');
    expect(lines()).toEqual([]);
    expect(host.pool.health()[0]?.state ?? 'idle').not.toBe('down');
  });

  it('are none where the record allows none, whatever else it allows [mcp.offers.policy]', async () => {
    const nothing = { allowed_tools: ['*'], allowed_resources: [], allowed_prompts: [] };
    const guest = await guestOf(await openHost([noting(nothing).record]));
    const fd = await openServer(guest, 'offers');
    expect(await listed(guest, 'mcp_list_resources', fd)).toEqual({
      resources: [],
      server_id: 'offers',
      templates: [],
    });
    expect(await listed(guest, 'mcp_list_prompts', fd)).toEqual({ prompts: [], server_id: 'offers' });
    expect(await read(guest, fd, 'notes://notes/risks')).toContain('has no allowed_resources, so all are denied');
    expect(await prompt(guest, fd, 'poem', '{"tone":"x"}')).toContain('has no allowed_prompts, so all are denied');
  });

  it('follow the registry [mcp.offers.policy]', async () => {
    const { record } = noting();
    const host = await openHost([record]);
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'offers');
    expect(await read(guest, fd, 'notes://notes/risks')).toBe(risks);
    await host.upsert(Object.freeze({ ...record, allowed_resources: ['notes://days/*'] }));
    expect(errorCode(await read(guest, fd, 'notes://notes/risks'))).toBe('mcp_policy_denied');
    expect((await listed(guest, 'mcp_list_resources', fd)).resources).toEqual([]);
  });

  it('leave the trail of calls, with what they are, and count as such [mcp.offers.audit]', async () => {
    const host = await openHost([noting().record]);
    const guest = await guestOf(host);
    const fd = await openServer(guest, 'offers');
    await read(guest, fd, 'notes://notes/risks');
    await read(guest, fd, 'notes://private/salaries');
    await prompt(guest, fd, 'poem', '{"tone":"sad"}');
    const told = host.told('tool_call.finished').map(({ kind, tool_name, status, reason }) => ({
      kind,
      tool_name,
      status,
      reason,
    }));
    expect(told).toEqual([
      { kind: 'resource', tool_name: 'notes://notes/risks', status: 'ok', reason: null },
      { kind: 'resource', tool_name: 'notes://private/salaries', status: 'denied', reason: 'denied_by_registry' },
      { kind: 'prompt', tool_name: 'poem', status: 'ok', reason: null },
    ]);
    expect(host.told('tool_call.started')).toMatchObject([
      { kind: 'resource', args: {} },
      { kind: 'resource' },
      { kind: 'prompt', args: { tone: 'sad' } },
    ]);
    expect(host.invocations.map(({ kind, outcome }) => [kind, outcome])).toEqual([
      ['resource', 'ok'],
      ['resource', 'mcp_policy_denied'],
      ['prompt', 'ok'],
    ]);
  });

  if (hasPointers())
    it('wait after ENOSPC, and are neither lost nor asked for twice [mcp.offers.once]', async () => {
      const { record, lines } = noting();
      const guest = await guestOf(await openHost([record]));
      const fd = await openServer(guest, 'offers');
      const first = await readInto(guest, fd, 'notes://notes/risks', 8);
      expect([first.rc, first.out.length]).toEqual([-errno.ENOSPC, risks.length]);
      expect(await read(guest, fd, 'notes://notes/risks')).toBe(risks);
      expect(lines()).toEqual(['read notes://notes/risks']);
      // A tool, a resource and a prompt may have the same name, and are not taken for each other.
      const name = guest.text('poem');
      const args = guest.text('{"tone":"sad"}');
      expect(await guest.call('mcp_get_prompt', fd, ...name, ...args, ...guest.heap.out(8).args)).toBe(-errno.ENOSPC);
      const out = guest.heap.out(4096);
      await guest.call('mcp_call_tool', fd, ...name, ...args, ...out.args);
      expect(errorCode(out.text())).toBe('mcp_policy_denied');
      expect(await prompt(guest, fd, 'poem', '{"tone":"sad"}')).toContain('Write a sad poem.');
      expect(lines()).toEqual(['read notes://notes/risks', 'prompt poem', 'prompt poem']);
    });
});
