import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import { fixture, spearRun } from '../../e2e/spear-run.ts';
import { recordDir, recordOf, taskWith, taskWithMcp } from './mcp-run.ts';

/** Everything that one run sent to the model, byte for byte. */
let sent: string[] = [];

/** Plays the provider: calls the tool `name` once for each user message, and then answers. */
let calls: { name: string; arguments: string }[] = [];

const provider = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts).toString('latin1');
  sent.push(`${request.method} ${request.url}\n${request.rawHeaders.join('\n')}\n\n${body}`);
  const { messages } = JSON.parse(Buffer.concat(parts).toString()) as { messages: JsonObject[] };
  const done = messages.at(-1)?.role === 'tool';
  const tool_calls = calls.map((fn, index) => ({ id: `call_${index}`, type: 'function', function: fn }));
  const message = done ? { role: 'assistant', content: 'done' } : { role: 'assistant', content: null, tool_calls };
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ id: 'x', object: 'chat.completion', model: 'm', choices: [{ index: 0, message }] }));
});

beforeAll(async () => {
  provider.listen(0, '127.0.0.1');
  await once(provider, 'listening');
});
afterAll(() => {
  provider.closeAllConnections();
  provider.close();
});

/** What a run with these flags sends. */
async function wireOf(wasm: string, flags: readonly string[]): Promise<readonly string[]> {
  sent = [];
  const { port } = provider.address() as AddressInfo;
  const env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, OPENAI_API_KEY: 'sk-test', OPENAI_MODEL: 'm' };
  const { code, stderr } = await spearRun([fixture(wasm), ...flags], { env });
  expect([code, stderr.replace(/^.*has no effect.*\n/gm, '')]).toEqual([0, '']);
  return sent;
}

const toolNames = (request: string) =>
  (JSON.parse(request.slice(request.indexOf('\n\n'))).tools as { function: { name: string } }[] | undefined)?.map(
    (tool) => tool.function.name,
  );

describe('what is sent to the model', () => {
  it('is the same, byte for byte, with MCP disabled and without any MCP config', async () => {
    calls = [{ name: 'sum', arguments: '{"a":2,"b":3}' }];
    const plain = await wireOf('c/sum.wasm', []);
    expect(plain).toHaveLength(2);
    expect(toolNames(plain[0] as string)).toEqual(['sum']);
    const dir = ['--mcp-dir', recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs') })];
    const disabled: [string, string[]][] = [
      ['a directory alone', dir],
      ['no mcp.enabled', [...dir, ...taskWith({})]],
      ['mcp.enabled false', [...dir, ...taskWith({ 'mcp.enabled': false, 'mcp.default_server_ids': ['tiny'] })]],
      ['no server', [...dir, ...taskWithMcp(['tiny'], { 'mcp.tool_allowlist': [] })]],
    ];
    for (const [how, flags] of disabled) {
      expect({ how, wire: await wireOf('c/sum.wasm', flags) }).toEqual({ how, wire: plain });
    }
  });

  it('differs in nothing but the tools with MCP enabled', async () => {
    calls = [{ name: 'sum', arguments: '{"a":2,"b":3}' }];
    const body = (request: string | undefined) =>
      JSON.parse(request?.slice(request.indexOf('\n\n')) ?? '') as JsonObject;
    const dir = ['--mcp-dir', recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs') })];
    const [plain, enabled] = [
      body((await wireOf('c/sum.wasm', []))[1]),
      body((await wireOf('c/sum.wasm', [...dir, ...taskWithMcp(['tiny'])]))[1]),
    ];
    expect((enabled.tools as JsonObject[]).slice(0, 1)).toEqual(plain.tools);
    expect((enabled.tools as JsonObject[]).length).toBe(6);
    expect({ ...enabled, tools: null }).toEqual({ ...plain, tools: null });
  });

  it('is the same on every run with MCP enabled, so that prompt caches hold', async () => {
    calls = [
      { name: 'fs_list_directory', arguments: JSON.stringify({ path: fixture('demo/notes') }) },
      { name: 'everything_echo', arguments: '{"message":"hi"}' },
      { name: 'everything_get-sum', arguments: '{"a":1,"b":2}' },
    ];
    const runs: (readonly string[])[] = [];
    for (const servers of [
      ['files', 'everything'],
      ['everything', 'files'],
      ['files', 'everything'],
    ]) {
      runs.push(await wireOf('c/files.wasm', [...taskWithMcp(servers), '--mcp-dir', fixture('mcp.d')]));
    }
    expect(runs[0]).toHaveLength(2);
    const names = toolNames(runs[0]?.[0] as string) ?? [];
    expect(names).toEqual(names.toSorted());
    expect(names).toEqual(expect.arrayContaining(['everything_echo', 'fs_read_text_file']));
    expect(runs[0]?.[1]).toContain('roadmap.md');
    expect(runs[1]).toEqual(runs[0]);
    expect(runs[2]).toEqual(runs[0]);
  });
});
