import { describe, expect, it } from 'vitest';
import { call, openPool, parsed, stdioRecord } from '../pool-samples.ts';

describe('a server with odd schemas', () => {
  const record = stdioRecord('schemas', 'schemas.mjs');

  it('offers its tools except those that cannot be called or are hostile', async () => {
    const { pool, log } = openPool();
    const list = await pool.listTools(record);
    expect(list.tools.map(({ name }) => name)).toEqual([
      'draft07',
      'draft2020',
      'undeclared07',
      'same_id_1',
      'same_id_2',
      'loose_pattern',
      'backtracking',
      'self',
      'bad_type',
      'bad_pattern',
      'remote_ref',
      'large',
      'output_right',
      'output_wrong',
      'output_broken',
      'output_async',
    ]);
    expect(list.dropped.map(({ name, reason }) => [name, reason])).toEqual([
      ['not_object', 'schema_invalid'],
      ['no_schema', 'schema_invalid'],
      ['deep', 'schema_invalid'],
      ['async', 'schema_invalid'],
      ['draft07', 'name_collision'],
      ['', 'schema_invalid'],
    ]);
    expect(log.filter(({ event }) => event === 'tool_dropped')).toHaveLength(6);
    const outcome = await call(pool, record, 'deep');
    expect(outcome).toMatchObject({ ok: false, dispatched: false, error: { code: 'mcp_tool_error' } });
  });

  it('is called with unvalidated arguments if a schema cannot be used, with one warning', async () => {
    const { pool, log } = openPool();
    for (const tool of ['bad_type', 'bad_type', 'remote_ref']) expect((await call(pool, record, tool)).ok).toBe(true);
    const said = log.filter(({ event }) => event === 'schema_unchecked').map(({ message }) => message);
    expect(said).toEqual([
      'tool "output_async": its outputSchema is ignored: the schema has $async',
      'the arguments of tool "bad_type" are not validated: part of the schema cannot be used; only the rest is validated: its type "strnig" is not supported',
      expect.stringMatching(/^the arguments of tool "remote_ref" .* its \$ref "https:.*" is not supported$/),
    ]);
    expect((await call(pool, record, 'output_broken')).ok).toBe(true);
  });

  it('is not called with unvalidated arguments under strict_schemas', async () => {
    const { pool } = openPool();
    const outcome = await call(pool, { ...record, strict_schemas: true }, 'bad_type');
    expect(outcome).toMatchObject({ ok: false, dispatched: false });
    expect(parsed(outcome).error?.message).toContain('its arguments cannot be validated (strict_schemas)');
    expect((await call(pool, { ...record, strict_schemas: true }, 'draft07', { item: 'a' })).ok).toBe(true);
  });

  it('is only called with arguments that its schema allows', async () => {
    const { pool } = openPool({ limits: { validationTimeoutMs: 500 } });
    expect((await call(pool, record, 'draft07', { pair: ['a', 1], item: 'a' })).ok).toBe(true);
    const refused = await call(pool, record, 'draft07', { item: 'c' });
    expect(refused).toMatchObject({ ok: false, dispatched: false });
    expect(parsed(refused).error).toEqual({
      code: 'mcp_invalid_arguments',
      message: 'tool "draft07": arguments/item must be equal to one of the allowed values: ["a","b"]',
      retryable: false,
    });
    const slow = await call(pool, record, 'backtracking', { name: `${'a'.repeat(60)}!` });
    expect(slow).toMatchObject({ dispatched: false, error: { code: 'mcp_invalid_arguments' } });
  });

  it('has its structured results validated', async () => {
    const { pool } = openPool();
    expect(parsed(await call(pool, record, 'output_right'))).toEqual({ content: [], structuredContent: { n: 1 } });
    const wrong = await call(pool, record, 'output_wrong');
    expect(wrong).toMatchObject({ ok: false, dispatched: true, error: { code: 'mcp_tool_error' } });
    expect(parsed(wrong).error?.message).toContain('structuredContent/n must be integer');
  });
});
