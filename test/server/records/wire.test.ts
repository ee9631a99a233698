import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ListMcpServersResponseSchema,
  McpRegistryEventSchema,
  McpRegistryService,
  UpsertMcpServerRequestSchema,
  WatchMcpServersRequestSchema,
} from '../../../src/generated/proto/sms/mcp_registry_pb.ts';
import {
  McpApprovalPolicySchema,
  McpBudgetsSchema,
  McpHttpConfigSchema,
  McpServerRecordSchema,
  McpStdioConfigSchema,
  McpTransportSchema,
} from '../../../src/generated/proto/sms/mcp_server_record_pb.ts';
import { parseRecord } from '../../../src/server/records/server.ts';
import { recordToWire, upsertToInput, wireToInput } from '../../../src/server/records/wire.ts';
import { sampleRecord } from './server-samples.ts';

const word = fc.stringMatching(/^[A-Za-z][A-Za-z0-9]{0,8}$/);
const words = fc.array(word, { maxLength: 3 });
const table = fc.dictionary(word, word, { maxKeys: 3 });
const common = {
  server_id: word,
  display_name: fc.option(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 10 }), { nil: undefined }),
  tool_namespace: fc.option(word, { nil: undefined }),
  tool_prefix: fc.option(word, { nil: undefined }),
  allowed_tools: words,
  approval_policy: fc.record({
    default: fc.constantFrom('never', 'always', 'policy', undefined),
    per_tool: fc.dictionary(word, fc.constantFrom('never', 'always'), { maxKeys: 2 }),
  }),
  budgets: fc.record({ tool_timeout_ms: fc.nat(120_000), connect_timeout_ms: fc.nat(600_000) }),
  tags: words,
  strict_schemas: fc.boolean(),
  repeatable: words,
  pins: fc.dictionary(word, fc.stringMatching(/^[0-9a-f]{64}$/), { maxKeys: 2 }),
  connection_scope: fc.constantFrom('run', 'task', 'node', undefined),
  client_features: fc.option(
    fc.record({
      elicitation: fc.subarray(['form', 'url']),
      roots: fc.array(fc.record({ uri: word.map((name) => `file:///${name}`), name: fc.option(word) }), {
        maxLength: 2,
      }),
    }),
  ),
  allowed_resources: words,
  allowed_prompts: words,
  namespaces: fc.option(words),
  protocol: fc.constantFrom('auto', 'legacy', '2026-07-28', undefined),
  mod_revision: fc.nat(),
};
const inputs = fc.oneof(
  fc.record({
    ...common,
    transport: fc.constant('stdio'),
    stdio: fc.record({ command: word, args: fc.array(fc.string()), env: table, cwd: fc.option(word) }),
    sandbox: fc.option(fc.record({ mode: fc.constantFrom('none', 'required'), read_only_paths: words })),
  }),
  fc.record({
    ...common,
    transport: fc.constantFrom('streamable_http', 'http_sse_legacy'),
    http: fc.record({
      url: fc.constantFrom('https://a.example/mcp', `http://\${ENV:MCP_HOST}/`),
      headers: fc.dictionary(word, word, { maxKeys: 2 }),
      auth_ref: fc.constantFrom(null, 'env:MCP_A', 'file:/run/key'),
    }),
  }),
);

it('round-trips every record unchanged', () => {
  fc.assert(
    fc.property(inputs, (input) => {
      const parsed = parseRecord(input, { strict: true });
      if (!parsed.ok) return;
      const bytes = toBinary(McpServerRecordSchema, recordToWire(parsed.record));
      const back = parseRecord(wireToInput(fromBinary(McpServerRecordSchema, bytes)), { strict: true });
      expect(back).toMatchObject({ ok: true, record: parsed.record });
    }),
  );
});

it('uses the field numbers that existing clients know [sms.wire.numbers]', () => {
  const numbers = (schema: { fields: readonly { name: string; number: number }[] }) =>
    Object.fromEntries(schema.fields.map(({ name, number }) => [name, number]));
  expect(Object.fromEntries(McpTransportSchema.values.map(({ name, number }) => [name, number]))).toEqual({
    MCP_TRANSPORT_UNSPECIFIED: 0,
    MCP_TRANSPORT_STDIO: 1,
    MCP_TRANSPORT_STREAMABLE_HTTP: 2,
    MCP_TRANSPORT_HTTP_SSE_LEGACY: 100,
  });
  expect(numbers(McpStdioConfigSchema)).toEqual({ command: 1, args: 2, env: 3, cwd: 4 });
  expect(numbers(McpHttpConfigSchema)).toEqual({ url: 1, headers: 2, auth_ref: 3 });
  expect(numbers(McpBudgetsSchema)).toEqual({
    tool_timeout_ms: 1,
    max_concurrency: 2,
    max_tool_output_bytes: 3,
    connect_timeout_ms: 100,
    max_tool_timeout_ms: 101,
  });
  expect(numbers(McpApprovalPolicySchema)).toEqual({ default_policy: 1, per_tool: 2 });
  expect(numbers(McpServerRecordSchema)).toEqual({
    server_id: 1,
    display_name: 2,
    transport: 3,
    stdio: 4,
    http: 5,
    tool_namespace: 6,
    allowed_tools: 7,
    approval_policy: 8,
    budgets: 9,
    updated_at_ms: 10,
    tool_prefix: 100,
    protocol: 101,
    tags: 102,
    sandbox: 103,
    mod_revision: 104,
    repeatable: 105,
    pins: 106,
    connection_scope: 107,
    client_features: 108,
    allowed_resources: 109,
    allowed_prompts: 110,
    namespaces: 111,
    strict_schemas: 112,
    era: 114,
    oauth: 115,
  });
  expect(numbers(ListMcpServersResponseSchema)).toEqual({ revision: 1, servers: 2, epoch: 100 });
  expect(numbers(WatchMcpServersRequestSchema)).toEqual({ since_revision: 1, include_records: 100 });
  expect(numbers(McpRegistryEventSchema)).toEqual({
    revision: 1,
    upserts: 2,
    deletes: 3,
    epoch: 100,
    records: 101,
    prev_revision: 102,
    heartbeat: 103,
  });
  expect(numbers(UpsertMcpServerRequestSchema)).toEqual({ record: 1 });
  expect(McpRegistryService.typeName).toBe('sms.McpRegistryService');
  expect(McpRegistryService.methods.map(({ name }) => name)).toEqual([
    'ListMcpServers',
    'WatchMcpServers',
    'UpsertMcpServer',
    'DeleteMcpServer',
  ]);
});

describe('an upsert', () => {
  const messages = {
    repeatable: ['read_*'],
    pins: { read: 'a'.repeat(64) },
    connection_scope: 'run',
    client_features: { elicitation: ['form'], roots: [{ uri: 'file:///srv', name: null }] },
    allowed_resources: ['file:///*'],
    allowed_prompts: ['p'],
    namespaces: ['default'],
  };
  const stored = sampleRecord('fs', {
    ...messages,
    tool_prefix: 'files',
    tags: ['team-a'],
    sandbox: { mode: 'required' },
    strict_schemas: true,
    budgets: { connect_timeout_ms: 1_234, max_concurrency: 2, max_tool_timeout_ms: 60_000 },
  });
  const base = { serverId: 'fs', transport: 1, stdio: { command: 'x' } } as const;
  const upsert = (fields: MessageInitShape<typeof McpServerRecordSchema>) => {
    const wire = create(McpServerRecordSchema, fields);
    const parsed = parseRecord(upsertToInput(wire, stored), { strict: true });
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
    return parsed.record;
  };

  it('of an older client keeps the fields of this project and sets the others [sms.upsert.keeps_our_fields]', () => {
    expect(upsert({ ...base, budgets: { toolTimeoutMs: 500n } })).toMatchObject({
      tool_prefix: 'files',
      tags: ['team-a'],
      sandbox: { mode: 'required' },
      strict_schemas: true,
      ...messages,
      allowed_tools: [],
      budgets: { tool_timeout_ms: 500, max_concurrency: 8, connect_timeout_ms: 1_234 },
    });
    const kept = { connect_timeout_ms: 1_234, max_concurrency: 8, max_tool_timeout_ms: 60_000 };
    expect(upsert(base).budgets).toMatchObject(kept);
  });

  it('of a newer client changes them, including tags to none [sms.upsert.keeps_our_fields]', () => {
    expect(upsert({ ...base, tags: ['b'] })).toMatchObject({
      tags: ['b'],
      tool_prefix: 'files',
      sandbox: { mode: 'required' },
    });
    expect(upsert({ ...base, toolPrefix: 'f', budgets: { connectTimeoutMs: 0n, maxToolTimeoutMs: 0n } })).toMatchObject(
      {
        tags: [],
        tool_prefix: 'f',
        sandbox: { mode: 'required' },
        budgets: { connect_timeout_ms: 60_000, max_tool_timeout_ms: 0 },
      },
    );
    expect(upsert({ ...base, strictSchemas: false }).strict_schemas).toBe(false);
    expect(upsert({ ...base, toolPrefix: '', sandbox: { mode: 'none' } })).toMatchObject({
      tool_prefix: 'fs',
      sandbox: { mode: 'none' },
    });
  });

  it('of a newer client clears a field with an empty message [sms.upsert.keeps_our_fields]', () => {
    expect(upsert({ ...base, repeatable: {}, pins: {}, connectionScope: {}, clientFeatures: {} })).toMatchObject({
      ...messages,
      repeatable: [],
      pins: {},
      connection_scope: 'task',
      client_features: { elicitation: [], roots: [] },
    });
    const none = { allowedResources: {}, allowedPrompts: {}, namespaces: {} };
    expect(upsert({ ...base, ...none })).toMatchObject({
      ...messages,
      allowed_resources: [],
      allowed_prompts: [],
      namespaces: [],
    });
  });

  it('of an older client, which always sends legacy, keeps the protocol [sms.upsert.keeps_our_fields]', () => {
    const pinned = { ...stored, protocol: '2026-07-28' } as const;
    const kept = (fields: { readonly protocol?: string; readonly era?: { readonly protocol: string } }) =>
      upsertToInput(create(McpServerRecordSchema, { ...base, ...fields }), pinned).protocol;
    expect(kept({})).toBe('2026-07-28');
    expect(kept({ protocol: 'legacy' })).toBe('2026-07-28');
    expect(kept({ protocol: 'auto' })).toBe('auto');
    expect(kept({ protocol: 'legacy', era: { protocol: 'legacy' } })).toBe('legacy');
    expect(recordToWire(pinned)).toMatchObject({ protocol: 'legacy', era: { protocol: '2026-07-28' } });
  });

  it('that changes the transport to http removes the sandbox [sms.upsert.keeps_our_fields]', () => {
    const record = upsert({ ...base, transport: 2, stdio: {}, http: { url: 'https://a.example' } });
    expect(record).toMatchObject({ transport: 'streamable_http', sandbox: null, tags: ['team-a'] });
  });
});
