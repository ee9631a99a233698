import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { PoolLogEntry } from '../../../src/agent/mcp/client/pool-options.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import {
  McpConnectionError,
  McpSchemaError,
  McpTimeoutError,
  McpToolbox,
  McpToolError,
  type ToolboxOptions,
  type ToolboxServer,
  type ToolInvocation,
} from '../../../src/index.ts';
import type { AuditEvent } from '../../../src/server/audit/event.ts';
import { fixture, npmServer } from './client/pool-records.ts';
import { eventually, processesWith, startHttp, tempDir } from './client/pool-samples.ts';

type Server = Partial<Omit<ToolboxServer, 'name' | 'transport'>>;

const stdio = (name: string, script: string, more: Server & { args?: string[] } = {}): ToolboxServer => {
  const { args = [], ...rest } = more;
  const path = script.startsWith('/') ? script : fixture(script);
  return { name, transport: { kind: 'stdio', command: process.execPath, args: [path, ...args] }, ...rest };
};

/** Disconnected at the end of the test. */
function toolbox(servers: readonly ToolboxServer[], options: Partial<ToolboxOptions> = {}): McpToolbox {
  const box = new McpToolbox({ servers, ...options });
  onTestFinished(() => box.disconnect());
  return box;
}

const names = (box: McpToolbox) => box.tools().map(({ name }) => name);
const firstText = (value: object) => (value as { content: { text: string }[] }).content[0]?.text;

/** What a rejected or throwing thing threw. */
async function thrown(work: () => unknown): Promise<Error> {
  try {
    await work();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}

describe('a toolbox', () => {
  it('lists and reads resources and prompts that its servers enable, and no others [toolbox.offers]', async () => {
    const enabled = { enabledResources: ['demo://resource/static/*'], enabledPrompts: ['args-*'] };
    const box = toolbox([
      stdio('everything', npmServer('everything'), { args: ['stdio'], ...enabled }),
      stdio('closed', 'offers.mjs'),
    ]);
    await expect(box.listResources('everything')).rejects.toThrow('not connected');
    await box.connect();
    const { resources, templates } = await box.listResources('everything');
    expect(resources.map(({ uri }) => uri)).toContain('demo://resource/static/document/features.md');
    expect(templates).toEqual([]);
    expect((await box.listPrompts('everything')).map(({ name }) => name)).toEqual(['args-prompt']);
    const invoked: ToolInvocation[] = [];
    box.onToolInvoked((one) => invoked.push(one));
    const read = await box.readResource('everything', 'demo://resource/static/document/features.md');
    expect(read).toMatchObject({ success: true, value: { contents: [{ text: expect.stringContaining('#') }] } });
    const got = await box.getPrompt('everything', 'args-prompt', { city: 'Bern' });
    expect(got.value).toMatchObject({ messages: [{ content: { text: "What's weather in Bern?" } }] });
    expect(await box.getPrompt('everything', 'simple-prompt')).toMatchObject({ success: false });
    expect(await box.readResource('everything', 'demo://resource/dynamic/text/1')).toMatchObject({ success: false });
    expect(invoked.map(({ kind, outcome }) => `${kind} ${outcome}`)).toEqual([
      'resource ok',
      'prompt ok',
      'prompt mcp_policy_denied',
      'resource mcp_policy_denied',
    ]);
    expect(await box.listResources('closed')).toEqual({ resources: [], templates: [] });
    await expect(box.listPrompts('nowhere')).rejects.toThrow('there is no server named "nowhere"');
  });

  it('gives the tools of real servers, and calls them [toolbox.tools]', async () => {
    const folder = tempDir();
    const box = toolbox([
      stdio('files', npmServer('filesystem'), { args: [folder] }),
      stdio('everything', npmServer('everything'), { args: ['stdio'] }),
      stdio('memory', npmServer('memory'), { env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') } }),
    ]);
    expect(box.connected).toBe(false);
    await box.connect();
    expect(box.connected).toBe(true);
    expect(names(box)).toEqual(
      expect.arrayContaining(['files_write_file', 'everything_get-sum', 'memory_create_entities']),
    );
    const path = join(folder, 'a.txt');
    expect(await box.tool('files_write_file').call({ path, content: 'written' })).toMatchObject({ success: true });
    const read = await box.tool('files_read_text_file').call({ path });
    expect([read.success, read.message, firstText(read.value)]).toEqual([true, 'ok', 'written']);
    const sum = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] };
    const added = await box.tool('everything_get-sum', sum as object).call({ a: 2, b: 40 });
    expect(firstText(added.value)).toContain('42');
  });

  it('speaks Streamable HTTP and SSE, with headers [toolbox.tools]', async () => {
    const server = await startHttp(fixture('http.mjs'), [], { TOKEN: 'the-token-of-the-test' });
    const headers = { authorization: 'Bearer the-token-of-the-test' };
    const box = toolbox([
      { name: 'new', transport: { kind: 'streamable_http', url: server.url('/mcp'), headers } },
      { name: 'old', transport: { kind: 'http_sse_legacy', url: server.url('/sse'), headers } },
    ]);
    await box.connect();
    for (const name of ['new_echo', 'old_echo']) {
      expect(firstText((await box.tool(name).call({ message: name })).value)).toBe(name);
    }
  });

  it('describes its tools [toolbox.tools]', async () => {
    const box = toolbox([stdio('tiny', 'tiny.mjs', { toolPrefix: 'little' })]);
    await box.connect();
    const tool = box.tool('little_echo');
    expect(tool).toMatchObject({
      name: 'little_echo',
      server: 'tiny',
      tool: 'echo',
      description: 'echo',
      inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
      outputSchema: null,
    });
    expect(Object.isFrozen(tool) && Object.isFrozen(box.tools())).toBe(true);
  });

  it('filters: enabled tools, and disabled ones whatever is enabled', async () => {
    const box = toolbox([
      stdio('some', 'tiny.mjs', { enabledTools: ['e*', 'pid'], disabledTools: ['environment'] }),
      stdio('none', 'tiny.mjs', { enabledTools: [] }),
      stdio('most', 'tiny.mjs', { disabledTools: ['e*'] }),
    ]);
    await box.connect();
    expect(names(box)).toEqual(['some_echo', 'some_pid', 'most_fail', 'most_pid', 'most_structured']);
    expect((await thrown(() => box.tool('some_environment'))).message).toContain('there is no tool named');
  });

  it('gives no server a name that could be another’s [mcp.names.own]', async () => {
    const same = { toolPrefix: 'same', enabledTools: ['pid'] };
    const box = toolbox([stdio('a', 'tiny.mjs', same), stdio('b', 'tiny.mjs', same)]);
    await box.connect();
    expect(box.tools().map(({ name, server }) => [name, server])).toEqual([
      [encodedName('a', 'pid'), 'a'],
      [encodedName('b', 'pid'), 'b'],
    ]);
    expect((await thrown(() => box.tool('same_pid'))).message).toContain('there is no tool named "same_pid"');
  });

  it('cuts results where its server says, and lets calls take an hour', async () => {
    const box = toolbox([stdio('tiny', 'tiny.mjs', { maxOutputBytes: 300, timeoutMs: 3_600_000 })]);
    await box.connect();
    const { success, value } = await box.tool('tiny_echo').call({ message: 'x'.repeat(1_000) });
    expect(success).toBe(false);
    expect(value.error).toMatchObject({ code: 'mcp_output_too_large' });
    expect(Buffer.byteLength(JSON.stringify(value))).toBeLessThanOrEqual(300);
    expect(() => toolbox([stdio('tiny', 'tiny.mjs', { timeoutMs: 3_600_001 })])).toThrow('budgets.tool_timeout_ms');
  });

  it('gives a failed call as a result, with its reason [toolbox.failure]', async () => {
    const box = toolbox([stdio('tiny', 'tiny.mjs'), stdio('mortal', 'mid-call.mjs', { timeoutMs: 300 })]);
    await box.connect();
    const call = async (name: string, params = {}, signal?: AbortSignal) => {
      const { success, message, value } = await box.tool(name).call(params, signal ? { signal } : {});
      return { success, message, code: (value.error as { code?: string } | undefined)?.code };
    };
    expect(await call('tiny_fail')).toEqual({ success: false, message: 'no such row', code: 'mcp_tool_error' });
    expect(await call('tiny_echo', { message: 1 })).toMatchObject({ success: false, code: 'mcp_invalid_arguments' });
    expect(await call('mortal_hang')).toMatchObject({ success: false, code: 'mcp_timeout' });
    expect(await call('mortal_die')).toMatchObject({ success: false, code: 'mcp_unavailable' });
    const aborted = AbortSignal.abort();
    expect(await call('tiny_pid', {}, aborted)).toMatchObject({ success: false, code: 'mcp_cancelled' });
  });

  it('tells of every call, and writes the trail', async () => {
    const trail: AuditEvent[] = [];
    const box = toolbox([stdio('tiny', 'tiny.mjs')], { audit: { write: (_run, event) => trail.push(event) } });
    const seen: ToolInvocation[] = [];
    const stop = box.onToolInvoked((invocation) => seen.push(invocation));
    await box.connect();
    await box.tool('tiny_pid').call({});
    await box.tool('tiny_fail').call({});
    stop();
    await box.tool('tiny_pid').call({});
    expect(seen.map(({ source, session, server, tool, outcome }) => [source, session, server, tool, outcome])).toEqual([
      ['mcp', 'toolbox', 'tiny', 'pid', 'ok'],
      ['mcp', 'toolbox', 'tiny', 'fail', 'mcp_tool_error'],
    ]);
    expect(new Set(seen.map(({ callId }) => callId)).size).toBe(2);
    expect(trail.map(({ event }) => event)).toEqual(Array(3).fill(['tool_call.started', 'tool_call.finished']).flat());
  });
});

describe('its life', () => {
  /** An empty directory for temporary files. */
  function ownTmpDir(): string {
    const dir = tempDir();
    vi.stubEnv('TMPDIR', dir);
    onTestFinished(() => void vi.unstubAllEnvs());
    return dir;
  }

  it('connects once, however often it is asked', async () => {
    const marker = randomUUID();
    const box = toolbox([stdio('tiny', 'tiny.mjs', { env: { MARKER: marker } })]);
    await Promise.all([box.connect(), box.connect()]);
    await box.connect();
    expect(processesWith(marker)).toHaveLength(1);
    await box.disconnect();
    expect(processesWith(marker)).toEqual([]);
  });

  it('can be connected again', async () => {
    const box = toolbox([stdio('tiny', 'tiny.mjs')]);
    await box.connect();
    const first = firstText((await box.tool('tiny_pid').call({})).value);
    await box.disconnect();
    expect(box.connected).toBe(false);
    expect(await thrown(() => box.tools())).toBeInstanceOf(McpConnectionError);
    await box.connect();
    expect(box.connected).toBe(true);
    expect(firstText((await box.tool('tiny_pid').call({})).value)).not.toBe(first);
  });

  it('leaves nothing behind: await using', async () => {
    const marker = randomUUID();
    const dir = ownTmpDir();
    let kept: McpToolbox;
    {
      await using box = new McpToolbox({ servers: [stdio('stubborn', 'tiny.mjs', { env: { MARKER: marker } })] });
      kept = box;
      await box.connect();
      expect(processesWith(marker)).toHaveLength(1);
      expect(readdirSync(dir).length).toBeGreaterThan(0);
    }
    expect(kept.connected).toBe(false);
    expect(processesWith(marker)).toEqual([]);
    expect(readdirSync(dir)).toEqual([]);
  });

  it('leaves nothing behind when one server cannot be reached', async () => {
    const marker = randomUUID();
    const dir = ownTmpDir();
    const box = toolbox([
      stdio('fine', 'tiny.mjs', { env: { MARKER: marker } }),
      { name: 'dead', transport: { kind: 'stdio', command: '/nonexistent/server' } },
    ]);
    expect(await thrown(() => box.connect())).toBeInstanceOf(McpConnectionError);
    expect(box.connected).toBe(false);
    expect(processesWith(marker)).toEqual([]);
    expect(readdirSync(dir)).toEqual([]);
  });

  it('leaves nothing behind when it is disconnected while it connects', async () => {
    const marker = randomUUID();
    const box = toolbox([stdio('mute', 'mute.mjs', { env: { MARKER: marker } })]);
    const connecting = thrown(() => box.connect());
    await eventually(() => expect(processesWith(marker)).toHaveLength(1));
    await box.disconnect();
    expect(await connecting).toMatchObject({ reason: 'closed', message: expect.stringContaining('disconnected') });
    expect(box.connected).toBe(false);
    expect(processesWith(marker)).toEqual([]);
  });

  it('ends a call under way when it is disconnected', async () => {
    const trail = join(tempDir(), 'trail');
    const box = toolbox([stdio('hanging', 'mid-call.mjs', { env: { TRAIL: trail } })]);
    await box.connect();
    const { call } = box.tool('hanging_hang');
    const result = call({});
    await eventually(() => expect(readdirSync(join(trail, '..'))).toEqual(['trail']));
    await box.disconnect();
    expect((await result).success).toBe(false);
    expect(await call({})).toMatchObject({ success: false, value: { error: { code: 'mcp_unavailable' } } });
  });

  it('is not connected while a server is lost, until a call gets it back', async () => {
    const box = toolbox([stdio('mortal', 'mid-call.mjs')]);
    await box.connect();
    await box.tool('mortal_die').call({});
    expect(box.connected).toBe(false);
    expect((await box.tool('mortal_pid').call({})).success).toBe(true);
    expect(box.connected).toBe(true);
  });

  it('keeps the homes of its servers where it is told to', async () => {
    const stateDir = tempDir();
    const box = toolbox([stdio('tiny', 'tiny.mjs')], { stateDir });
    await box.connect();
    await box.disconnect();
    expect(readdirSync(join(stateDir, 'home'))).toEqual([expect.stringMatching(/^tiny-/)]);
  });
});

describe('its errors', () => {
  it('McpConnectionError: it is not connected [toolbox.errors]', async () => {
    const box = toolbox([stdio('tiny', 'tiny.mjs')]);
    for (const use of [() => box.tools(), () => box.tool('tiny_pid')]) {
      expect(await thrown(use)).toMatchObject({ name: 'McpConnectionError', reason: 'closed' });
    }
  });

  it.each<[string, ToolboxServer, object]>([
    [
      'the command is not there',
      { name: 'dead', transport: { kind: 'stdio', command: '/nonexistent/server' } },
      { reason: 'spawn_failed', serverId: 'dead' },
    ],
    [
      'nobody listens',
      { name: 'dead', transport: { kind: 'streamable_http', url: 'http://127.0.0.1:9/mcp' } },
      { reason: 'connect_failed', serverId: 'dead' },
    ],
    [
      'a value is a reference: there is nothing to refer to',
      stdio('poor', 'tiny.mjs', { env: { KEY: `\${ENV:HOME}` } }),
      { reason: 'env_missing', serverId: 'poor' },
    ],
  ])('McpConnectionError: %s [toolbox.errors]', async (_, server, expected) => {
    const error = await thrown(() => toolbox([server]).connect());
    expect(error).toBeInstanceOf(McpConnectionError);
    expect(error).toMatchObject(expected);
  });

  it.each<[string, readonly ToolboxServer[], string]>([
    ['a bad name', [stdio('no name', 'tiny.mjs')], 'the server "no name" cannot be used: server_id '],
    [
      'a bad url',
      [{ name: 'x', transport: { kind: 'streamable_http', url: 'ftp://x' } }],
      '"x" cannot be used: http.url ',
    ],
    ['a bad deadline', [stdio('x', 'tiny.mjs', { timeoutMs: 1 })], '"x" cannot be used: budgets.tool_timeout_ms '],
    [
      'two of one name',
      [stdio('x', 'tiny.mjs'), stdio('x', 'tiny.mjs')],
      '"x" cannot be used: two servers have this name',
    ],
  ])('McpConnectionError: %s, when it is made [toolbox.errors]', async (_, servers, expected) => {
    const error = await thrown(() => new McpToolbox({ servers }));
    expect(error).toBeInstanceOf(McpConnectionError);
    expect(error).toMatchObject({ reason: 'record_invalid', message: expect.stringContaining(expected) });
  });

  it('McpTimeoutError: a server does not answer in time [toolbox.errors]', async () => {
    const box = toolbox([stdio('mute', 'mute.mjs', { connectTimeoutMs: 300 })]);
    const error = await thrown(() => box.connect());
    expect(error).toBeInstanceOf(McpTimeoutError);
    expect(error).toMatchObject({ serverId: 'mute', timeoutMs: 300, retryable: true });
  });

  it('McpToolError: there is no such tool [toolbox.errors]', async () => {
    const box = toolbox([stdio('tiny', 'tiny.mjs', { enabledTools: ['pid', 'echo'] })]);
    await box.connect();
    const error = await thrown(() => box.tool('tiny_nothing'));
    expect(error).toBeInstanceOf(McpToolError);
    expect(error.message).toBe('there is no tool named "tiny_nothing" (there are: tiny_echo, tiny_pid)');
  });

  it('McpSchemaError: the tool is there and its schema cannot be used [toolbox.errors]', async () => {
    const box = toolbox([stdio('odd', 'schemas.mjs')]);
    await box.connect();
    expect(names(box)).toContain('odd_draft2020');
    const error = await thrown(() => box.tool('odd_deep'));
    expect(error).toBeInstanceOf(McpSchemaError);
    expect(error).toMatchObject({ serverId: 'odd', toolName: 'deep' });
  });

  it('never hold the values of env or headers [toolbox.errors]', async () => {
    const secret = 'sk-toolbox-0123456789';
    const refused = await startHttp(fixture('http.mjs'), [], { TOKEN: 'another' });
    const log: PoolLogEntry[] = [];
    const servers: ToolboxServer[] = [
      stdio('mute', 'mute.mjs', { env: { API_TOKEN: secret }, connectTimeoutMs: 300 }),
      {
        name: 'closed',
        transport: {
          kind: 'streamable_http',
          url: refused.url('/mcp'),
          headers: { authorization: `Bearer ${secret}` },
        },
      },
    ];
    for (const server of servers) {
      const error = await thrown(() => toolbox([server], { log: (entry) => log.push(entry) }).connect());
      expect(`${error.message} ${error.stack} ${JSON.stringify(error)}`).not.toContain(secret);
    }
    expect(log.length).toBeGreaterThan(0);
    expect(JSON.stringify(log)).not.toContain(secret);
  });
});
