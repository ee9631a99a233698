import { afterEach, describe, expect, it } from 'vitest';
import { nextMessage, OriginalClient, status } from '../original-client.ts';
import { fsRecord, startTestSms, stopAll, type TestSms } from '../running-sms.ts';

afterEach(stopAll);

const original = {
  server_id: 'fs',
  transport: 'MCP_TRANSPORT_STDIO',
  stdio: { command: 'mcp-fs', args: ['/data'], env: { LOG: 'debug' } },
  allowed_tools: ['read_*'],
};

const admin = (sms: TestSms) => new OriginalClient(sms.sms.grpc, sms.adminToken);
const node = (sms: TestSms) => new OriginalClient(sms.sms.grpc, sms.nodeToken);

describe('a client of another library with the original numbers alone', () => {
  it('lists, upserts and deletes [sms.grpc.original_client]', async () => {
    const client = admin(await startTestSms());
    expect(await client.call('ListMcpServers')).toEqual({ revision: 0, servers: [] });
    expect(await client.call('UpsertMcpServer', { record: original })).toEqual({ revision: 1 });
    const { revision, servers } = await client.call('ListMcpServers');
    expect(revision).toBe(1);
    expect(servers).toEqual([
      {
        server_id: 'fs',
        display_name: 'fs',
        transport: 'MCP_TRANSPORT_STDIO',
        stdio: { command: 'mcp-fs', args: ['/data'], env: { LOG: 'debug' }, cwd: '' },
        http: null,
        tool_namespace: 'mcp.fs',
        allowed_tools: ['read_*'],
        approval_policy: { default_policy: 'never', per_tool: {} },
        budgets: { tool_timeout_ms: 8000, max_concurrency: 8, max_tool_output_bytes: 65536 },
        updated_at_ms: expect.any(Number),
      },
    ]);
    expect(await client.call('DeleteMcpServer', { server_id: 'fs' })).toEqual({ revision: 2 });
    expect(await client.call('ListMcpServers')).toEqual({ revision: 2, servers: [] });
  });

  it('speaks of http servers in its own way [sms.grpc.original_client]', async () => {
    const client = admin(await startTestSms());
    const http = { url: 'https://mcp.example/mcp', headers: { 'X-A': '1' }, auth_ref: 'env:MCP_KEY' };
    // Some libraries send an empty message for a block that is not meant.
    const record = { server_id: 'web', transport: 'MCP_TRANSPORT_STREAMABLE_HTTP', http, stdio: {} };
    await client.call('UpsertMcpServer', { record });
    expect(await client.call('ListMcpServers')).toMatchObject({ servers: [{ server_id: 'web', http, stdio: null }] });
  });

  it('is told of changes by id, without heartbeats, from the revision that it names [sms.watch.since]', async () => {
    const sms = await startTestSms({ limit: { heartbeat_ms: 100 } });
    const client = admin(sms);
    await client.call('UpsertMcpServer', { record: original });
    await client.call('UpsertMcpServer', { record: { ...original, server_id: 'b' } });
    const stream = node(sms).stream('WatchMcpServers', { since_revision: 1 });
    expect(await nextMessage(stream)).toEqual({ event: { revision: 2, upserts: ['b'], deletes: [] } });
    const other = sms.source().watch(2, AbortSignal.timeout(45_000))[Symbol.asyncIterator]();
    for (let beats = 0; beats < 3; beats++) expect((await other.next()).value).toMatchObject({ heartbeat: true });
    await client.call('DeleteMcpServer', { server_id: 'fs' });
    expect(await nextMessage(stream)).toEqual({ event: { revision: 3, upserts: [], deletes: ['fs'] } });
    stream.cancel();
  });

  it('gets the headers of a watch before there is an event', async () => {
    const sms = await startTestSms();
    const stream = node(sms).stream('WatchMcpServers', { since_revision: 0 });
    await new Promise((resolve, reject) => {
      stream.on('metadata', resolve);
      stream.on('error', reject);
    });
    stream.cancel();
  });

  it('does not erase fields that it does not know [sms.upsert.keeps_our_fields]', async () => {
    const sms = await startTestSms();
    const ours = {
      tool_prefix: 'files',
      tags: ['team-a'],
      sandbox: { mode: 'required', network: 'deny', read_only_paths: ['/usr'], writable_paths: [] },
      budgets: { connect_timeout_ms: 1234 },
    };
    await sms.http('POST', '/admin/api/mcp/servers', { json: { ...fsRecord, ...ours } });
    await admin(sms).call('UpsertMcpServer', { record: { ...original, display_name: 'changed by an older client' } });
    const { body } = await sms.http('GET', '/admin/api/mcp/servers/fs');
    expect(body).toMatchObject({ ...ours, display_name: 'changed by an older client', mod_revision: 2 });
    expect(body.budgets).toMatchObject({ tool_timeout_ms: 8000 });
  });
});

describe('upsert', () => {
  it.each([
    ['record', {}],
    ['record.server_id', { record: { ...original, server_id: 'no spaces please' } }],
    ['record.transport', { record: { ...original, transport: 'MCP_TRANSPORT_UNSPECIFIED' } }],
    ['record.transport', { record: { ...original, transport: 57 } }],
    ['record.stdio.command', { record: { ...original, stdio: {} } }],
    ['record.stdio', { record: { ...original, stdio: null } }],
    ['record.budgets.tool_timeout_ms', { record: { ...original, budgets: { tool_timeout_ms: 5 } } }],
    [
      'record.approval_policy.default_policy',
      { record: { ...original, approval_policy: { default_policy: 'maybe' } } },
    ],
    ['record.stdio.env["A=B"]', { record: { ...original, stdio: { command: 'x', env: { 'A=B': '1' } } } }],
  ])('names the field %s and stores nothing [sms.upsert.invalid]', async (field, request) => {
    const client = admin(await startTestSms());
    const error = await client.call('UpsertMcpServer', request).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT });
    expect((error as { details: string }).details).toContain(`${field}: `);
    expect(await client.call('ListMcpServers')).toEqual({ revision: 0, servers: [] });
  });

  it('that changes nothing makes no revision', async () => {
    const client = admin(await startTestSms());
    expect(await client.call('UpsertMcpServer', { record: original })).toEqual({ revision: 1 });
    expect(await client.call('UpsertMcpServer', { record: original })).toEqual({ revision: 1 });
  });

  it('by many at once loses none', async () => {
    const client = admin(await startTestSms());
    const names = Array.from({ length: 20 }, (_, index) => `name ${index}`);
    const answers = await Promise.all(
      names.map((display_name) => client.call('UpsertMcpServer', { record: { ...original, display_name } })),
    );
    expect(answers.map(({ revision }) => revision).sort((a, b) => Number(a) - Number(b))).toEqual(
      names.map((_, index) => index + 1),
    );
  });
});

it('answers NOT_FOUND to a delete of what is not there', async () => {
  const client = admin(await startTestSms());
  for (const server_id of ['nobody', '', 'x'.repeat(500)]) {
    await expect(client.call('DeleteMcpServer', { server_id })).rejects.toMatchObject({ code: status.NOT_FOUND });
  }
});

describe('who may call', () => {
  const calls: readonly (readonly [string, 'anybody' | 'node' | 'admin'])[] = [
    ['ListMcpServers', 'node'],
    ['UpsertMcpServer', 'admin'],
    ['DeleteMcpServer', 'admin'],
  ];

  it.each(calls)('%s needs the token of the %s [sms.auth.roles]', async (method, needs) => {
    const sms = await startTestSms();
    const { grpc } = sms.sms;
    for (const token of ['', 'wrong-token-wrong-token', `${sms.adminToken}x`]) {
      const refused = new OriginalClient(grpc, token).call(method, { record: original, server_id: 'fs' });
      await expect(refused).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
    }
    const asNode = await node(sms)
      .call(method)
      .then(
        () => 'done',
        (error: { code: number }) => error.code,
      );
    expect(asNode).toBe(needs === 'node' ? 'done' : status.PERMISSION_DENIED);
    expect(await admin(sms).call('ListMcpServers')).toEqual({ revision: 0, servers: [] });
  });

  it('a watch needs the token of the node [sms.auth.roles]', async () => {
    const sms = await startTestSms();
    const refused = new OriginalClient(sms.sms.grpc, 'wrong-token-wrong-token').stream('WatchMcpServers');
    await expect(nextMessage(refused)).rejects.toMatchObject({ code: status.UNAUTHENTICATED });
  });

  it('everybody, where auth was switched off', async () => {
    const sms = await startTestSms({ auth: false });
    const client = new OriginalClient(sms.sms.grpc, '');
    expect(await client.call('UpsertMcpServer', { record: original })).toEqual({ revision: 1 });
  });
});

describe('the standard health service', () => {
  it('needs no token and knows our services', async () => {
    const sms = await startTestSms();
    const health = new OriginalClient(sms.sms.grpc, '', 'health');
    for (const service of ['', 'sms.McpRegistryService', 'sms.McpNodeService']) {
      expect(await health.call('Check', { service })).toEqual({ status: 'SERVING' });
    }
    await expect(health.call('Check', { service: 'other' })).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it('tells a watcher that the server is ending', async () => {
    const sms = await startTestSms();
    const stream = new OriginalClient(sms.sms.grpc, '', 'health').stream('Watch');
    expect(await nextMessage(stream)).toEqual({ status: 'SERVING' });
    const next = nextMessage(stream);
    await sms.sms.close();
    expect(await next).toEqual({ status: 'NOT_SERVING' });
  });
});

it('serves gRPC by TLS', async () => {
  const { selfSigned } = await import('../../support/certificates.ts');
  const { writeFileSync } = await import('node:fs');
  const { temporaryDirectory } = await import('../running-sms.ts');
  const directory = temporaryDirectory();
  const { cert, key } = selfSigned();
  writeFileSync(`${directory}/cert.pem`, cert);
  writeFileSync(`${directory}/key.pem`, key, { mode: 0o600 });
  const sms = await startTestSms({ tls: { cert: `${directory}/cert.pem`, key: `${directory}/key.pem` } });
  expect(sms.sms.http).toMatch(/^https:/);
  const client = new OriginalClient(sms.sms.grpc.replace('127.0.0.1', 'localhost'), sms.adminToken, 'registry', cert);
  expect(await client.call('UpsertMcpServer', { record: original })).toEqual({ revision: 1 });
});
