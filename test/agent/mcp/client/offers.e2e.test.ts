import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../src/base/json.ts';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import { call, eventually, fixture, httpRecord, openPool, startHttp, stdioRecord, tempDir } from './pool-samples.ts';

const patient = { budgets: { tool_timeout_ms: 60_000, connect_timeout_ms: 30_000 } };

async function offers(wire: 'stdio' | 'http', protocol: McpServerRecord['protocol'], env: Record<string, string> = {}) {
  const file = join(tempDir(), 'trail');
  const trail = () => readFileSync(file, 'utf8').split('\n').filter(Boolean);
  const variables = { TRAIL: file, ...env };
  if (wire === 'stdio') {
    return { record: { ...stdioRecord('offers', 'offers.mjs', { env: variables, ...patient }), protocol }, trail };
  }
  const { url } = await startHttp(fixture('offers.mjs'), ['http'], variables);
  return { record: { ...httpRecord('offers', 'streamable_http', url('/mcp'), patient), protocol }, trail };
}

const read = { kind: 'resource' } as const;
const uris = (list: readonly JsonObject[]) => list.map(({ uri }) => uri);

describe.each([
  ['stdio', 'auto'],
  ['stdio', 'legacy'],
  ['http', 'auto'],
  ['http', 'legacy'],
] as const)('over %s with protocol %s a server', (wire, protocol) => {
  it('is asked for its resources, templates and prompts, and gives them [pool.offers]', async () => {
    const { record } = await offers(wire, protocol);
    const { pool } = openPool();
    const { resources, templates } = await pool.listResources(record);
    expect(uris(resources)).toContain('notes://notes/roadmap');
    expect(templates.map(({ uriTemplate }) => uriTemplate)).toEqual(['notes://days/{day}', 'notes://private/{person}']);
    const { prompts } = await pool.listPrompts(record);
    expect(prompts.map(({ name }) => name)).toEqual(['poem', 'report']);
    expect((await call(pool, record, 'notes://notes/roadmap', {}, read)).json).toBe(
      '{"contents":[{"mimeType":"text/plain","text":"This is roadmap.","uri":"notes://notes/roadmap"}]}',
    );
    expect((await call(pool, record, 'notes://days/monday', {}, read)).json).toContain('On monday nothing happened.');
    expect((await call(pool, record, 'poem', { tone: 'sad' }, { kind: 'prompt' })).json).toBe(
      '{"description":"a sad poem","messages":[{"content":{"text":"Write a sad poem.","type":"text"},"role":"user"}]}',
    );
    const missing = await call(pool, record, 'notes://notes/nothing', {}, read);
    expect(missing.error?.message).toContain('resource "notes://notes/nothing": ');
    const wrong = await call(pool, record, 'poem', { tone: 3 }, { kind: 'prompt' });
    expect(wrong).toMatchObject({ dispatched: false, error: { code: 'mcp_invalid_arguments' } });
  });

  it('is told of a cancelled read, and goes on [pool.offers]', async () => {
    const { record, trail } = await offers(wire, protocol);
    const { pool } = openPool();
    const abort = new AbortController();
    const held = call(pool, record, 'notes://notes/hold', {}, { ...read, signal: abort.signal });
    await eventually(() => expect(trail()).toContain('held'));
    abort.abort();
    expect((await held).error).toMatchObject({ code: 'mcp_cancelled' });
    if (wire === 'stdio' || protocol === 'auto') await eventually(() => expect(trail()).toContain('cancelled'));
    expect((await call(pool, record, 'notes://notes/risks', {}, read)).json).toContain('This is risks.');
  });
});

it.each(['stdio', 'http'] as const)('a list that changed is asked for again, over %s [pool.offers]', async (wire) => {
  const { record } = await offers(wire, 'auto');
  const { pool } = openPool();
  await Promise.all([pool.listResources(record), pool.listPrompts(record)]);
  await call(pool, record, 'grow');
  await eventually(async () => {
    expect(uris((await pool.listResources(record)).resources)).toContain('notes://notes/extra_1');
    expect((await pool.listPrompts(record)).prompts.map(({ name }) => name)).toContain('extra_1');
  });
});

describe('what a server offers besides tools', () => {
  it('is listed once for many readers and kept, and is none where it declares none [pool.offers]', async () => {
    const { pool } = openPool();
    const { record } = await offers('stdio', 'auto');
    const lists = await Promise.all(Array.from({ length: 5 }, () => pool.listResources(record)));
    expect(new Set(lists).size).toBe(1);
    const { record: bare } = await offers('stdio', 'auto', { OFFERS: 'none' });
    const other = { ...bare, server_id: 'bare' };
    expect(await pool.listResources(other)).toEqual({ resources: [], templates: [], ttlMs: null });
    expect(await pool.listPrompts(other)).toEqual({ prompts: [], ttlMs: null });
    const refused = await call(pool, other, 'notes://notes/roadmap', {}, read);
    expect(refused).toMatchObject({ dispatched: false, error: { code: 'mcp_tool_error', retryable: false } });
    expect(refused.error?.message).toContain('declares no resources (its capabilities have no "resources")');
  });

  it('has the deadline, the cap and the places of calls [pool.offers]', async () => {
    const { record } = await offers('stdio', 'auto');
    const { pool } = openPool({ limits: { queueTimeoutMs: 300 } });
    const large = await call(pool, record, 'notes://notes/large', {}, read);
    expect(large.error?.code).toBe('mcp_output_too_large');
    expect(large.bytes).toBeLessThanOrEqual(record.budgets.max_tool_output_bytes);
    expect(large.json).toContain('… [truncated]');
    const narrow = { ...record, mod_revision: 1, budgets: { ...record.budgets, max_concurrency: 1 } };
    const slow = call(pool, narrow, 'notes://notes/hold', {}, { ...read, timeoutMs: 1_000 });
    const behind = await call(pool, narrow, 'notes://notes/risks', {}, read);
    expect(behind.error).toMatchObject({ code: 'mcp_budget_exceeded' });
    expect((await slow).error).toMatchObject({
      code: 'mcp_timeout',
      message: 'resource "notes://notes/hold" of server "offers" took longer than 1000 ms',
    });
  });

  it('is given without the secrets of its record [pool.offers]', async () => {
    const { record } = await offers('stdio', 'auto', { API_TOKEN: 'sk-offers-0123456789' });
    const { pool } = openPool();
    const { json } = await call(pool, record, 'notes://notes/environment', {}, read);
    expect(json).toContain('the token is ');
    expect(json).not.toContain('sk-offers-0123456789');
  });
});
