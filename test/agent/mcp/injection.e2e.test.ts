import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { RegistryCache } from '../../../src/registry-client/cache.ts';
import { inProcessSource } from '../../../src/registry-client/source.ts';
import { createMemoryStore } from '../../../src/server/store/local-store.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { inEnoughTime } from '../../support/enough-time.ts';
import { eraHas } from '../../support/server-era.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { npmServer, stdioRecord, tempDir } from './client/pool-samples.ts';
import { everythingOverHttp } from './everything-over-http.ts';
import { inject, type McpHost, namesOf, openHost, textOf } from './mcp-host.ts';

const named = (server: string, ...tools: string[]) => tools.map((tool) => encodedName(server, tool));

/** A record like the given one with other fields. */
const but = (record: ReturnType<typeof sampleRecord>, fields: Record<string, unknown>) =>
  Object.freeze({ ...record, ...fields }) as typeof record;

const tiny = (id: string, fields: Record<string, unknown> = {}) => but(stdioRecord(id, 'tiny.mjs'), fields);

const reasons = (host: McpHost) => [
  ...host.told('session.created').flatMap(({ exclusions }) => exclusions),
  ...host.told('mcp.injected').flatMap(({ exclusions }) => exclusions),
];

if (eraHas('publishedServers'))
  describe('injection from real servers', () => {
    it('offers the tools of server-filesystem, server-memory and server-everything on stdio [mcp.inject]', async () => {
      const folder = tempDir();
      mkdirSync(join(folder, 'docs'));
      writeFileSync(join(folder, 'docs', 'a.txt'), 'the content of a');
      const host = await openHost([
        stdioRecord('memory', npmServer('memory'), { env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') } }),
        stdioRecord('fs', npmServer('filesystem'), { args: [join(folder, 'docs')] }),
        stdioRecord('everything', npmServer('everything'), { args: ['stdio'] }),
      ]);
      const tools = await inject(host.guest());
      const names = namesOf(tools);
      expect(names).toEqual(expect.arrayContaining(named('fs', 'read_text_file', 'write_file')));
      expect(names).toEqual(expect.arrayContaining(named('memory', 'create_entities', 'read_graph')));
      expect(names).toEqual(expect.arrayContaining(named('everything', 'echo', 'get-sum')));

      const read = encodedName('fs', 'read_text_file');
      expect(await textOf(tools, read, { path: join(folder, 'docs', 'a.txt') })).toBe('the content of a');
      const entities = [{ name: 'Ada', entityType: 'person', observations: ['wrote a program'] }];
      await textOf(tools, encodedName('memory', 'create_entities'), { entities });
      expect(await textOf(tools, encodedName('memory', 'read_graph'))).toContain('wrote a program');
      expect(await textOf(tools, encodedName('everything', 'get-sum'), { a: 2, b: 3 })).toContain('5');

      const injected = host
        .told('mcp.injected')
        .map(({ server_id, status, tools: count }) => [server_id, status, count > 0]);
      expect(injected).toEqual([
        ['everything', 'ok', true],
        ['fs', 'ok', true],
        ['memory', 'ok', true],
      ]);
    });

    it('offers those of server-everything over Streamable HTTP and over SSE [mcp.inject]', async () => {
      const host = await openHost([
        await everythingOverHttp('new', 'streamable_http'),
        await everythingOverHttp('old', 'http_sse_legacy'),
      ]);
      const tools = await inject(host.guest());
      for (const server of ['new', 'old']) {
        const answer = await textOf(tools, encodedName(server, 'echo'), { message: `over ${server}` });
        expect(answer).toContain(`over ${server}`);
      }
    });
  });

describe('what is offered', () => {
  it('is an OpenAI tool with the server’s description and schema', async () => {
    const host = await openHost([tiny('tiny', { allowed_tools: ['echo'] })]);
    const { definitions, systemMessage } = await inject(host.guest());
    expect(definitions).toEqual([
      {
        type: 'function',
        function: {
          name: 'mcp__dGlueQ__ZWNobw',
          description: 'echo',
          parameters: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
        },
      },
    ]);
    expect(systemMessage).toBeNull();
  });

  it('stands in an order that depends on nothing but the set', async () => {
    const ids = ['b', 'a', 'C', 'a.b'];
    const host = await openHost(ids.map((id) => tiny(id)));
    const first = await inject(host.guest({ defaultServerIds: ids, allowedServerIds: ids }));
    const reversed = ids.toReversed();
    const guest = host.guest({ defaultServerIds: reversed, allowedServerIds: reversed }, 'run-2');
    const second = await inject(guest, { params: [['mcp.server_ids', reversed]] });
    const sorted = ['echo', 'environment', 'fail', 'pid', 'structured'];
    expect(namesOf(first)).toEqual(['C', 'a', 'a.b', 'b'].flatMap((id) => named(id, ...sorted)));
    expect(JSON.stringify(second.definitions)).toBe(JSON.stringify(first.definitions));
  });

  it('has readable names where the session asks for them', async () => {
    const host = await openHost([tiny('tiny', { tool_prefix: 'little', allowed_tools: ['echo', 'pid'] })]);
    const tools = await inject(host.guest(), { params: [['mcp.tool_naming', 'readable']] });
    const asTaskSays = await inject(host.guest({ toolNaming: 'readable' }));
    expect(namesOf(asTaskSays)).toEqual(namesOf(tools));
    const asSessionSays = await inject(host.guest({ toolNaming: 'readable' }), {
      params: [['mcp.tool_naming', 'encoded']],
    });
    expect(namesOf(asSessionSays)).toEqual(namesOf(await inject(host.guest())));
    expect(namesOf(tools)).toEqual(['little_echo', 'little_pid']);
    expect(await textOf(tools, 'little_echo', { message: 'hi' })).toBe('hi');
  });

  it('comes with an inventory where the session asks for one [mcp.inject.inventory]', async () => {
    const host = await openHost([tiny('tiny', { display_name: 'Tiny', allowed_tools: ['echo'] })]);
    const guest = host.guest();
    const inventory = async (value: boolean | string) =>
      (await inject(guest, { params: [['mcp.inventory', value]] })).systemMessage;
    expect(await inventory(true)).toBe(
      'The following external tools are available via MCP:\n\n### Tiny\n\n- `mcp__dGlueQ__ZWNobw` - echo',
    );
    expect(await inventory(`\${server_names}: \${tool_count}`)).toBe('Tiny: 1');
    expect(await inventory(false)).toBeNull();
    const nothing = await inject(guest, {
      params: [
        ['mcp.inventory', true],
        ['mcp.server_ids', []],
      ],
    });
    expect(nothing.systemMessage).toBeNull();
  });
});

describe('the three layers', () => {
  const everyTool = ['echo', 'environment', 'fail', 'pid', 'structured'];

  it('narrow the servers: registry ∩ task ∩ session [mcp.layers.servers]', async () => {
    const host = await openHost([tiny('a'), tiny('b'), tiny('c')]);
    const guest = host.guest({ defaultServerIds: ['a'], allowedServerIds: ['a', 'b', 'gone'] });
    const servers = async (...params: [string, boolean | string[]][]) => {
      const session = `chat-${host.trail.length}`;
      await inject(guest, { session, params });
      return host.told('mcp.injected').flatMap((line) => (line.session_id === session ? [line.server_id] : []));
    };
    expect(await servers()).toEqual(['a']);
    expect(await servers(['mcp.server_ids', ['b', 'a']])).toEqual(['a', 'b']);
    expect(await servers(['mcp.server_ids', ['b']])).toEqual(['b']);
    expect(await servers(['mcp.server_ids', []])).toEqual([]);
    expect(await servers(['mcp.enabled', false])).toEqual([]);
    // Refused on the guest's thread already; here that thread does not behave.
    expect(await servers(['mcp.server_ids', ['c']])).toEqual(['a']);
    expect(await servers(['mcp.server_ids', ['gone']])).toEqual([]);
  });

  it.each<[string, object, [string, string[]][], string[]]>([
    ['nothing narrows', {}, [], everyTool],
    ['the task allows', { toolAllowlist: ['e*', 'pid'] }, [], ['echo', 'environment', 'pid']],
    ['the task denies', { toolDenylist: ['e*'] }, [], ['fail', 'pid', 'structured']],
    ['the session allows', {}, [['mcp.tool_allowlist', ['pid']]], ['pid']],
    ['the session denies', {}, [['mcp.tool_denylist', ['*i*']]], ['echo', 'structured']],
    [
      'both allow: what both allow',
      { toolAllowlist: ['e*', 'pid'] },
      [['mcp.tool_allowlist', ['pid', 'fail']]],
      ['pid'],
    ],
    ['a denial vetoes', { toolAllowlist: ['*'], toolDenylist: ['pid'] }, [['mcp.tool_allowlist', ['pid']]], []],
    ['the session allows nothing', {}, [['mcp.tool_allowlist', []]], []],
  ])('narrow the tools: %s [mcp.layers.tools]', async (_, task, params, expected) => {
    const host = await openHost([tiny('tiny')]);
    expect(namesOf(await inject(host.guest(task), { params }))).toEqual(named('tiny', ...expected));
  });

  it('narrow to the servers with one of the tags, as the registry has them now [policy.server_tags]', async () => {
    const host = await openHost([tiny('a', { tags: ['scm'] }), tiny('b', { tags: ['mail', 'search'] }), tiny('c')]);
    const guest = host.guest({
      defaultServerIds: null,
      allowedServerIds: null,
      serverTags: ['scm', 'search'],
      toolAllowlist: ['pid'],
    });
    expect(namesOf(await inject(guest))).toEqual([...named('a', 'pid'), ...named('b', 'pid')]);
    expect(guest.registryList()).toMatchObject({ servers: [{ server_id: 'a' }, { server_id: 'b' }] });
    expect([guest.open('a'), guest.open('c'), guest.open('nope')]).toEqual([null, 'EACCES', 'EACCES']);
    await host.upsert(tiny('b', { tags: ['mail'] }));
    await host.upsert(tiny('c', { tags: ['scm'] }));
    expect(namesOf(await inject(guest))).toEqual([...named('a', 'pid'), ...named('c', 'pid')]);
  });

  it('narrow the tools also where the default set is empty [mcp.layers.tools]', async () => {
    const host = await openHost([tiny('tiny')]);
    const guest = host.guest({ defaultServerIds: [], allowedServerIds: ['tiny'], toolDenylist: ['e*', 'pid'] });
    expect(namesOf(await inject(guest))).toEqual([]);
    const asked = await inject(guest, { params: [['mcp.server_ids', ['tiny']]] });
    expect(namesOf(asked)).toEqual(named('tiny', 'fail', 'structured'));
  });

  it('take a record’s patterns into account [mcp.layers.tools]', async () => {
    const host = await openHost([tiny('tiny', { allowed_tools: ['?id', 'fa*'] })]);
    expect(namesOf(await inject(host.guest()))).toEqual(named('tiny', 'fail', 'pid'));
  });
});

describe('what is left out', () => {
  it('has a reason in the trail: servers', async () => {
    const host = await openHost(
      [
        tiny('closed', { allowed_tools: [] }),
        tiny('extra'),
        tiny('fine'),
        stdioRecord('poor', 'tiny.mjs', { env: { KEY: `\${ENV:NOT_SET}` } }),
        stdioRecord('greedy', 'tiny.mjs', { env: { KEY: `\${ENV:OPENAI_API_KEY}` } }),
        sampleRecord('dead', { stdio: { command: '/nonexistent/server' } }),
        stdioRecord('slow', 'lists.mjs', { args: ['slow', '600000'] }),
        stdioRecord('broken', 'lists.mjs', { args: ['fails'] }),
      ],
      { limits: { listTimeoutMs: 1_500 }, variables: { OPENAI_API_KEY: 'sk-of-the-model' } },
    );
    const defaultServerIds = ['fine', 'closed', 'poor', 'greedy', 'dead', 'slow', 'broken', 'missing', 'foreign'];
    const allowedServerIds = [...defaultServerIds.filter((id) => id !== 'foreign'), 'extra'];
    const tools = await inject(host.guest({ defaultServerIds, allowedServerIds }));
    expect(namesOf(tools)).toHaveLength(5);
    expect(
      Object.fromEntries(reasons(host).map(({ server_id, reason, layer }) => [server_id, [reason, layer]])),
    ).toEqual({
      broken: ['list_failed', 'node'],
      closed: ['deny_all', 'registry'],
      dead: ['list_failed', 'node'],
      foreign: ['not_allowed', 'task'],
      greedy: ['env_refused', 'node'],
      missing: ['unknown_server', 'registry'],
      poor: ['env_missing', 'node'],
      slow: ['list_timeout', 'node'],
    });
    expect(reasons(host).every(({ tool_name, detail }) => tool_name === null && detail !== '')).toBe(true);
    const failed = host.told('mcp.injected').map(({ server_id, status, reason }) => [server_id, status, reason]);
    expect(failed).toEqual([
      ['broken', 'failed', 'list_failed'],
      ['dead', 'failed', 'list_failed'],
      ['fine', 'ok', null],
      ['greedy', 'failed', 'env_refused'],
      ['poor', 'failed', 'env_missing'],
      ['slow', 'failed', 'list_timeout'],
    ]);
  });

  it('has a reason in the trail: what the session did', async () => {
    const host = await openHost([tiny('a'), tiny('b')]);
    await inject(host.guest(), { params: [['mcp.server_ids', ['b']]] });
    await inject(host.guest(), { session: 'chat-2', params: [['mcp.enabled', false]] });
    expect(
      host.told('session.created').map(({ session_id, servers, exclusions }) => [session_id, servers, exclusions]),
    ).toEqual([
      [
        'chat-1',
        ['b'],
        [expect.objectContaining({ server_id: 'a', tool_name: null, reason: 'denied_by_session', layer: 'session' })],
      ],
      [
        'chat-2',
        [],
        ['a', 'b'].map((server_id) =>
          expect.objectContaining({ server_id, tool_name: null, reason: 'disabled', layer: 'session' }),
        ),
      ],
    ]);
  });

  it('has a reason in the trail: tools', async () => {
    const host = await openHost([
      tiny('tiny', { allowed_tools: ['e*', 'pid', 'fail'] }),
      stdioRecord('odd', 'schemas.mjs'),
    ]);
    const guest = host.guest({ toolDenylist: ['fail'] });
    await inject(guest, { params: [['mcp.tool_denylist', ['pid']]] });
    const of = (server: string) =>
      Object.fromEntries(
        reasons(host).flatMap((line) => (line.server_id === server ? [[line.tool_name, line.reason]] : [])),
      );
    expect(of('tiny')).toEqual({
      fail: 'denied_by_task',
      pid: 'denied_by_session',
      structured: 'denied_by_registry',
    });
    expect(of('odd')).toMatchObject({ async: 'schema_invalid', deep: 'schema_invalid', draft07: 'name_collision' });
  });

  it('has a reason in the trail: names that are taken [mcp.names.collision]', async () => {
    const host = await openHost([tiny('a', { tool_prefix: 'x' })]);
    const readable = await inject(host.guest(), {
      params: [['mcp.tool_naming', 'readable']],
      guestTools: new Set(['x_pid', 'unrelated']),
    });
    expect(namesOf(readable)).toEqual(['x_echo', 'x_environment', 'x_fail', 'x_structured']);
    expect(reasons(host)).toMatchObject([{ server_id: 'a', tool_name: 'pid', reason: 'name_collision' }]);
    expect(host.told('mcp.injected')).toMatchObject([{ server_id: 'a', tools: 4 }]);
  });

  it('is everything while there is no snapshot, or it is too old', async () => {
    const host = await openHost([tiny('tiny')]);
    const store = createMemoryStore();
    const registry = new RegistryCache({ source: inProcessSource(store) });
    const early = new GuestMcp({ ...host, registry }, 'run-1', taskWith({ defaultServerIds: ['tiny'] }));
    expect(namesOf(await inject(early))).toEqual([]);
    const { view, ...rest } = bound(host.registry);
    const old = { view: () => ({ servers: view()?.servers ?? new Map(), stale: true, profiles: null }), ...rest };
    const late = new GuestMcp({ ...host, registry: old }, 'run-2', taskWith({ defaultServerIds: ['tiny'] }));
    expect(namesOf(await inject(late))).toEqual([]);
    expect(reasons(host).map(({ server_id, reason, layer }) => [server_id, reason, layer])).toEqual([
      ['tiny', 'registry_not_ready', 'node'],
      ['tiny', 'stale_registry', 'node'],
    ]);
    expect(host.told('session.created').map(({ revision }) => revision)).toEqual([null, 1]);
    await store.close();
  });
});

const bound = (registry: RegistryCache) => ({
  view: () => registry.view(),
  snapshot: () => registry.snapshot(),
  onPolicyChange: registry.onPolicyChange.bind(registry),
});

describe('one server that is dead or slow', () => {
  it('neither removes nor delays the tools of the others past its own deadline [mcp.inject.isolation]', async () => {
    await inEnoughTime(3_000, async (ms) => {
      const host = await openHost(
        [
          tiny('a'),
          sampleRecord('dead', { stdio: { command: '/nonexistent/server' } }),
          but(stdioRecord('mute', 'mute.mjs'), { budgets: { ...tiny('x').budgets, connect_timeout_ms: ms } }),
          stdioRecord('slow', 'lists.mjs', { args: ['slow', '600000'] }),
          tiny('z'),
        ],
        { limits: { listTimeoutMs: ms } },
      );
      const tools = await inject(host.guest());
      expect(namesOf(tools)).toEqual(
        ['a', 'z'].flatMap((id) => named(id, 'echo', 'environment', 'fail', 'pid', 'structured')),
      );
      // Side by side: one after the other, z would have to wait until mute and slow are given up.
      const order = host.log.map(({ event, serverId }) => `${event} ${serverId}`);
      const at = (line: string) => order.indexOf(line);
      expect(at('tools_listed z')).toBeGreaterThanOrEqual(0);
      expect(at('tools_listed z')).toBeLessThan(at('connect_failed mute'));
      expect(at('tools_listed z')).toBeLessThan(at('list_failed slow'));
      expect(await textOf(tools, encodedName('z', 'echo'), { message: 'still here' })).toBe('still here');
    });
  });

  it('ends with the send that waits for it [mcp.inject.isolation]', async () => {
    const host = await openHost([stdioRecord('slow', 'lists.mjs', { args: ['slow', '600000'] })]);
    const controller = new AbortController();
    const waiting = inject(host.guest(), { signal: controller.signal });
    controller.abort(new DOMException('cancelled by the guest', 'AbortError'));
    expect(namesOf(await waiting)).toEqual([]);
  });
});

it('writes one line for a session, and one for every server at every send', async () => {
  const host = await openHost([tiny('a'), tiny('b')]);
  const guest = host.guest();
  for (const session of ['chat-1', 'chat-1', 'chat-2']) await inject(guest, { session });
  expect(
    host.trail.map((line) => [
      line.event,
      'session_id' in line && line.session_id,
      'server_id' in line && line.server_id,
    ]),
  ).toEqual([
    ['session.created', 'chat-1', false],
    ['mcp.injected', 'chat-1', 'a'],
    ['mcp.injected', 'chat-1', 'b'],
    ['mcp.injected', 'chat-1', 'a'],
    ['mcp.injected', 'chat-1', 'b'],
    ['session.created', 'chat-2', false],
    ['mcp.injected', 'chat-2', 'a'],
    ['mcp.injected', 'chat-2', 'b'],
  ]);
});
