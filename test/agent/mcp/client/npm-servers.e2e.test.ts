import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import {
  call,
  httpRecord,
  npmServer,
  openPool,
  parsed,
  startHttp,
  stdioRecord,
  tempDir,
  textOf,
} from './pool-samples.ts';

const budgets = { budgets: { tool_timeout_ms: 30_000 } };

/** That server wants to be told its port. */
async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

async function everything(transport: string): Promise<McpServerRecord> {
  if (transport === 'stdio') return stdioRecord('everything', npmServer('everything'), { args: ['stdio'], ...budgets });
  const streamable = transport === 'streamable_http';
  const env = { PORT: await freePort() };
  const server = await startHttp(npmServer('everything'), [streamable ? 'streamableHttp' : 'sse'], env);
  const url = `http://127.0.0.1:${server.port}${streamable ? '/mcp' : '/sse'}`;
  return httpRecord('everything', streamable ? 'streamable_http' : 'http_sse_legacy', url, budgets);
}

describe.each(['stdio', 'streamable_http', 'http_sse_legacy'])('server-everything over %s', (transport) => {
  it('lists its tools and answers them in their shapes', async () => {
    const record = await everything(transport);
    const { pool, log } = openPool();
    const { tools, dropped } = await pool.listTools(record);
    expect(dropped).toEqual([]);
    const connected = log.find(({ event }) => event === 'connected');
    expect(connected).toMatchObject({
      message: transport,
      protocolVersion: expect.stringMatching(/^20\d\d-\d\d-\d\d$/),
    });
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['echo', 'get-sum', 'get-tiny-image', 'get-structured-content']));

    expect(await textOf(call(pool, record, 'echo', { message: 'hällo' }))).toBe('Echo: hällo');
    expect(await textOf(call(pool, record, 'get-sum', { a: 2, b: 3 }))).toContain('5');
    const image = parsed(await call(pool, record, 'get-tiny-image'));
    expect(image.content?.map(({ type }) => type)).toContain('image');
    const structured = parsed(await call(pool, record, 'get-structured-content', { location: 'New York' }));
    expect(structured.structuredContent).toMatchObject({ temperature: expect.any(Number) });
    const link = parsed(await call(pool, record, 'get-resource-links', { count: 2 }));
    expect(link.content?.map(({ type }) => type)).toContain('resource_link');

    const refused = await call(pool, record, 'get-sum', { a: 'two', b: 3 });
    expect(refused).toMatchObject({ dispatched: false, error: { code: 'mcp_invalid_arguments' } });
  });

  it('is cancelled when it takes too long, and goes on serving', async () => {
    const record = await everything(transport);
    const { pool } = openPool();
    const slow = { duration: 60, steps: 60 };
    const outcome = await call(pool, record, 'trigger-long-running-operation', slow, { timeoutMs: 500 });
    expect(outcome.error?.code).toBe('mcp_timeout');
    expect(await textOf(call(pool, record, 'echo', { message: 'on' }))).toBe('Echo: on');
  });
});

describe('server-filesystem', () => {
  it('reads and writes inside its directory, and refuses the rest', async () => {
    const dir = tempDir();
    const allowed = join(dir, 'allowed');
    mkdirSync(allowed);
    writeFileSync(join(allowed, 'note.txt'), 'grüße');
    writeFileSync(join(dir, 'outside.txt'), 'no');
    const record = stdioRecord('fs', npmServer('filesystem'), { args: [allowed], ...budgets });
    const { pool } = openPool();
    expect(await textOf(call(pool, record, 'read_text_file', { path: join(allowed, 'note.txt') }))).toBe('grüße');
    await textOf(call(pool, record, 'write_file', { path: join(allowed, 'new.txt'), content: 'written' }));
    expect(readFileSync(join(allowed, 'new.txt'), 'utf8')).toBe('written');
    const refused = await call(pool, record, 'read_text_file', { path: join(dir, 'outside.txt') });
    expect(refused).toMatchObject({ ok: false, dispatched: true, error: { code: 'mcp_tool_error' } });
    expect(parsed(refused).content?.[0]?.text).toMatch(/denied/i);
  });
});

describe('server-memory', () => {
  it('keeps what it learns across a restart', async () => {
    const file = join(tempDir(), 'memory.jsonl');
    const record = stdioRecord('memory', npmServer('memory'), { env: { MEMORY_FILE_PATH: file }, ...budgets });
    const entity = { name: 'Spear', entityType: 'project', observations: ['runs agents'] };
    const first = openPool().pool;
    expect((await call(first, record, 'create_entities', { entities: [entity] })).ok).toBe(true);
    await first.close();
    expect(existsSync(file)).toBe(true);
    const graph = parsed(await call(openPool().pool, record, 'read_graph'));
    expect(graph.structuredContent).toMatchObject({ entities: [expect.objectContaining({ name: 'Spear' })] });
  });
});
