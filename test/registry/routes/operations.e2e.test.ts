import { rmSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { type NodeReport, NodeReporter } from '../../../src/registry-client/node-report.ts';
import { sandboxOf } from '../../agent/mcp/client/pool-records.ts';
import { parseExposition } from '../../server/telemetry/exposition.ts';
import { OriginalClient } from '../original-client.ts';
import { fsRecord, onStop, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../running-sms.ts';

afterEach(stopAll);

const servers = '/admin/api/mcp/servers';
const importPath = `${servers}/import`;

const report = (nodeId: string, snapshotRevision = 1): NodeReport => ({
  nodeId,
  registryState: 'ready',
  epoch: 'e',
  snapshotRevision,
  servers: [
    { serverId: 'fs', health: 'down', lastError: 'spawn\nfailed', toolCount: null, reconnects: 3 },
    { serverId: 'gone', health: 'connected', lastError: null, toolCount: 7, reconnects: 0 },
  ],
});

describe('probes and metrics', () => {
  it('says whether it is ready', async () => {
    const sms = await startTestSms();
    expect((await sms.http('GET', '/healthz')).body).toEqual({ status: 'ok' });
    expect((await sms.http('GET', '/readyz')).body).toEqual({ status: 'serving' });
  });

  it('counts what happens in the format of Prometheus', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: fsRecord });
    await sms.http('GET', servers, { token: null });
    const { text, headers } = await sms.http('GET', '/metrics');
    expect(headers.get('content-type')).toMatch(/^text\/plain; version=0.0.4/);
    expect(parseExposition(text).size).toBeGreaterThan(10);
    expect(text).toMatch(/^spear_sms_revision 1$/m);
    expect(text).toMatch(/^spear_sms_servers 1$/m);
    expect(text).toMatch(/^spear_sms_denied_total\{protocol="http"\} 1$/m);
    expect(text).toMatch(
      /^spear_sms_requests_total\{protocol="http",method="POST \/admin\/api\/mcp\/servers",code="201"\} 1$/m,
    );
    expect(text).toMatch(/^spear_sms_write_seconds_count 1$/m);
    for (const line of text.trimEnd().split('\n')) {
      expect(line).toMatch(/^(?:# (?:HELP|TYPE) [a-z_]+ .+|[a-z_]+(?:\{[^{}]*\})? [0-9.e+-]+)$/);
    }
  });
});

describe('a disk without room', () => {
  const many = (count: number) => ({
    servers: Array.from({ length: count }, (_, i) => ({
      ...fsRecord,
      server_id: `s${i}`,
      display_name: 'x'.repeat(60),
    })),
  });

  it('is said by every write that needs it, by /readyz and by a metric, while reading goes on [store.no_room]', async () => {
    const sms = await startTestSms({ limit: { max_bytes: 64 * 1024 } });
    await sms.http('POST', servers, { json: fsRecord });
    const plan = await sms.http('POST', importPath, { json: many(400) });
    const refused = await sms.http('POST', `${importPath}?apply=${plan.body.plan}`, { json: many(400) });
    expect(refused.status).toBe(507);
    expect(refused.body).toMatchObject({
      type: 'urn:spear:problem:not-stored',
      detail: expect.stringContaining('no space left on the disk'),
    });
    const ready = await sms.http('GET', '/readyz', { token: null });
    expect([ready.status, ready.body]).toEqual([
      503,
      { status: 'read_only', reason: expect.stringMatching(/no space left.*reads still work/) },
    ]);
    expect((await sms.http('GET', '/metrics')).text).toMatch(/^spear_sms_writable 0$/m);
    expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 1, servers: [{ server_id: 'fs' }] });
    expect((await sms.source().list(AbortSignal.timeout(45_000))).records).toHaveLength(1);
    expect((await sms.http('DELETE', `${servers}/fs`)).status).toBe(200);
    expect((await sms.http('GET', '/readyz')).status).toBe(200);
  });

  it('refuses a conditional write for want of room, not for its condition [store.no_room]', async () => {
    const sms = await startTestSms({ limit: { max_bytes: 64 * 1024 } });
    await sms.http('POST', servers, { json: fsRecord });
    const args = Array.from({ length: 50 }, (_, i) => `argument number ${i} ${'x'.repeat(1_150)}`);
    const json = { ...fsRecord, stdio: { command: 'x', args } };
    const { status, body } = await sms.http('PUT', `${servers}/fs`, { json, headers: { 'if-match': '1' } });
    expect([status, body.type]).toEqual([507, 'urn:spear:problem:not-stored']);
    await expect(
      new OriginalClient(sms.sms.grpc, sms.adminToken).call('UpsertMcpServer', { record: wireRecord(args) }),
    ).rejects.toMatchObject({
      details: expect.stringContaining('no space left'),
    });
  });
});

const wireRecord = (args: readonly string[]) => ({
  server_id: 'fs',
  transport: 'MCP_TRANSPORT_STDIO',
  stdio: { command: 'x', args },
});

describe('import', () => {
  const file = { servers: [fsRecord, { ...fsRecord, server_id: 'b', stdio: { command: 'b' } }] };
  const actions = ({ body }: { body: { servers?: unknown } }) =>
    (body.servers as { action: string; server_id: string }[]).map(({ action, server_id }) => `${action} ${server_id}`);

  it('first tells what it would do, then does exactly that [sms.http.import]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: { ...fsRecord, display_name: 'before' } });
    const plan = await sms.http('POST', importPath, { json: file });
    expect(plan.body).toMatchObject({ outcome: 'dry_run' });
    expect(actions(plan)).toEqual(['update fs', 'create b']);
    expect(plan.body.servers).toMatchObject([{ fields: ['display_name'] }, { fields: [] }]);
    expect((await sms.http('GET', servers)).body.revision).toBe(1);

    const applied = await sms.http('POST', `${importPath}?apply=${plan.body.plan}`, { json: file });
    expect(applied.body).toMatchObject({ outcome: 'applied', revision: 3 });
    expect(actions(await sms.http('POST', importPath, { json: file }))).toEqual(['unchanged fs', 'unchanged b']);
  });

  it('refuses a plan that would do something else by now [sms.http.import]', async () => {
    const sms = await startTestSms();
    const plan = await sms.http('POST', importPath, { json: file });
    await sms.http('POST', servers, { json: { ...fsRecord, display_name: 'somebody was faster' } });
    const late = await sms.http('POST', `${importPath}?apply=${plan.body.plan}`, { json: file });
    expect(late.status).toBe(412);
    expect((await sms.http('POST', `${importPath}?apply=guess`, { json: file })).status).toBe(412);
    expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 1 });
  });

  it('stores nothing of a file with one bad record, and names the field [sms.http.import] [sms.http.problem]', async () => {
    const sms = await startTestSms();
    const json = { servers: [fsRecord, { ...fsRecord, server_id: 'b', transport: 'carrier pigeon' }, fsRecord, 7] };
    const { status, body } = await sms.http('POST', importPath, { json });
    expect(status).toBe(400);
    expect((body.errors as { field: string }[]).map(({ field }) => field)).toEqual([
      'servers[1].transport',
      'servers[2].server_id',
      'servers[3]',
    ]);
    expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 0 });
  });

  it('takes one record as TOML, shorthand of files included [sms.http.import]', async () => {
    const sms = await startTestSms();
    const text = 'server_id = "t"\ntransport = "stdio"\n[stdio]\ncommand = "x"\nenv_from = ["MCP_A"]\n';
    const headers = { 'content-type': 'application/toml' };
    const plan = await sms.http('POST', importPath, { text, headers });
    await sms.http('POST', `${importPath}?apply=${plan.body.plan}`, { text, headers });
    expect((await sms.http('GET', `${servers}/t`)).body.stdio).toMatchObject({ env: { MCP_A: `\${ENV:MCP_A}` } });
    const broken = await sms.http('POST', importPath, { text: 'token = "hunter2', headers });
    expect(broken.status).toBe(400);
    expect(broken.text).not.toContain('hunter2');
  });

  it('keeps values for masks of an export [sms.http.import] [sms.http.mask_kept]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: fsRecord });
    const exported = (await sms.http('GET', servers)).body;
    expect(actions(await sms.http('POST', importPath, { json: exported }))).toEqual(['unchanged fs']);
  });
});

describe('the directory', () => {
  const toml = (id: string, command: string) =>
    `server_id = "${id}"\ntransport = "stdio"\nallowed_tools = ["*"]\n[stdio]\ncommand = "${command}"\n`;

  it('is read at start and again on POST /reload', async () => {
    const registryDir = temporaryDirectory();
    writeFileSync(`${registryDir}/a.toml`, toml('a', 'one'));
    const sms = await startTestSms({ registryDir });
    expect((await sms.http('GET', servers)).body).toMatchObject({
      revision: 1,
      servers: [{ server_id: 'a', origin: 'directory:a.toml' }],
    });
    writeFileSync(`${registryDir}/b.toml`, toml('b', 'two'));
    rmSync(`${registryDir}/a.toml`);
    writeFileSync(`${registryDir}/c.toml`, 'server_id = 7');
    const changes = [
      { action: 'create', server_id: 'b', file: 'b.toml', fields: [] },
      { action: 'delete', server_id: 'a', file: 'a.toml', fields: [] },
    ];
    const dry = await sms.http('POST', '/admin/api/mcp/reload?dry_run=true');
    expect(dry.body).toMatchObject({ outcome: 'dry_run', changes });
    expect((await sms.http('GET', servers)).body.revision).toBe(1);
    const { status, body } = await sms.http('POST', '/admin/api/mcp/reload');
    expect(status).toBe(200);
    expect(body).toMatchObject({ outcome: 'applied', changes });
    expect((body.problems as { file: string; field: string }[])[0]).toMatchObject({
      file: 'c.toml',
      field: 'server_id',
    });
    expect((await sms.http('GET', servers)).body).toMatchObject({ servers: [{ server_id: 'b' }] });
  });

  it('that lost most of its files is refused with 422, an error and a metric, unless that is allowed [directory.mass_removal]', async () => {
    const registryDir = temporaryDirectory();
    const sms = await startTestSms({ registryDir });
    writeFileSync(`${registryDir}/a.toml`, toml('a', 'one'));
    await sms.http('POST', '/admin/api/mcp/reload');
    rmSync(`${registryDir}/a.toml`);
    const { status, body } = await sms.http('POST', '/admin/api/mcp/reload');
    expect(status).toBe(422);
    expect(body).toMatchObject({ outcome: 'refused', detail: expect.stringContaining('no longer has any server') });
    expect((await sms.http('GET', '/metrics')).text).toMatch(
      /^spear_sms_directory_reloads_total\{outcome="refused"\} 1$/m,
    );
    expect(sms.logged.filter((line) => line.startsWith('error directory'))).toHaveLength(1);
    // An empty directory at start does not empty the registry either.
    await sms.restart();
    expect((await sms.http('GET', servers)).body).toMatchObject({ servers: [{ server_id: 'a' }] });
    expect((await sms.http('POST', '/admin/api/mcp/reload?allow_mass_removal=true')).body).toMatchObject({
      outcome: 'applied',
    });
    expect((await sms.http('GET', servers)).body).toMatchObject({ servers: [] });
  });

  it('is refused with 422 where strict, and nothing changes', async () => {
    const registryDir = temporaryDirectory();
    const sms = await startTestSms({ registryDir, strict: true });
    writeFileSync(`${registryDir}/a.toml`, toml('a', 'one'));
    writeFileSync(`${registryDir}/b.toml`, `${toml('b', 'two')}\n[colour]\n`);
    const { status, body } = await sms.http('POST', '/admin/api/mcp/reload');
    expect(status).toBe(422);
    expect(body.outcome).toBe('refused');
    expect((await sms.http('GET', servers)).body.revision).toBe(0);
  });

  it('that is not there is said to be missing', async () => {
    const sms = await startTestSms();
    const { status, body } = await sms.http('POST', '/admin/api/mcp/reload');
    expect(status).toBe(409);
    expect(body.detail).toContain('--mcp-registry-dir');
  });
});

describe('reports of nodes', () => {
  const send = (sms: TestSms, given = report('node-1')) => sms.source().report(given, AbortSignal.timeout(45_000));

  it('are shown with their age, by server and by node', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: fsRecord });
    expect(await send(sms)).toEqual({ expiresAfterMs: 60_000, wantedToolLists: [] });
    await send(sms, report('node-2', 9));
    await send(sms, report('node-2', 10));
    const seen = {
      node_id: 'node-1',
      age_ms: expect.any(Number),
      snapshot_revision: 1,
      health: 'down',
      last_error: 'spawn failed',
      tool_count: null,
      reconnects: 3,
      latency_ms: null,
      tools_hash: null,
    };
    const { body } = await sms.http('GET', `${servers}/fs`);
    expect(body.nodes).toEqual([seen, { ...seen, node_id: 'node-2', snapshot_revision: 10 }]);
    expect((await sms.http('GET', servers)).body).toMatchObject({
      servers: [{ nodes: [seen, { node_id: 'node-2' }] }],
    });
    expect((await sms.http('GET', '/admin/api/mcp/nodes')).body).toMatchObject({
      nodes: [
        {
          node_id: 'node-1',
          registry_state: 'ready',
          servers: [{ server_id: 'fs' }, { server_id: 'gone', tool_count: 7 }],
        },
        { node_id: 'node-2', snapshot_revision: 10 },
      ],
    });
  });

  it('need the token of the node, and sense', async () => {
    const sms = await startTestSms({ limit: { max_nodes: 1 } });
    await expect(
      sms.source('wrong-token-wrong-token').report(report('n'), AbortSignal.timeout(45_000)),
    ).rejects.toThrow('unauthenticated');
    await expect(send(sms, report('no spaces'))).rejects.toThrow('node_id');
    await expect(send(sms, { ...report('n'), registryState: 'fine' as 'ready' })).rejects.toThrow('registry_state');
    const bad = { serverId: 'fs', health: 'splendid' as 'down', lastError: null, toolCount: 1, reconnects: 0 };
    await expect(send(sms, { ...report('n'), servers: [bad] })).rejects.toThrow('servers[0].health');
    const forged = { hash: 'a'.repeat(64), tools: [] };
    await expect(send(sms, { ...report('n'), toolLists: [forged] })).rejects.toThrow('tool_lists[0].hash');
    await send(sms);
    await expect(send(sms, report('one-too-many'))).rejects.toThrow('resource_exhausted');
  });

  it('are sent by a node again and again, and soon after something changed', async () => {
    const sms = await startTestSms();
    const source = sms.source();
    let revision = 1;
    let arrived = Promise.withResolvers<void>();
    const reporter = new NodeReporter({
      target: {
        async report(given, signal) {
          const answer = await source.report(given, signal);
          arrived.resolve();
          return answer;
        },
      },
      collect: () => report('live', revision),
    });
    onStop(() => reporter.close());
    const shown = async () => (await sms.http('GET', '/admin/api/mcp/nodes')).body;
    reporter.start();
    await arrived.promise;
    expect(await shown()).toMatchObject({ nodes: [{ node_id: 'live', snapshot_revision: 1 }] });
    arrived = Promise.withResolvers();
    revision = 2;
    reporter.changed();
    await arrived.promise;
    expect(await shown()).toMatchObject({ nodes: [{ node_id: 'live', snapshot_revision: 2 }] });
  });
});

describe('POST /servers/{id}/test', () => {
  it('is off unless the config allows it', async () => {
    const sms = await startTestSms();
    const { status, body } = await sms.http('POST', `${servers}/fs/test`);
    expect(status).toBe(403);
    expect(body.detail).toContain('spear servers test');
  });

  it('runs a real server where the config allows it', async () => {
    const entry = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-filesystem/dist/index.js'));
    const sms = await startTestSms({ allowServerTest: true });
    const served = temporaryDirectory();
    const stdio = { command: process.execPath, args: [entry, served] };
    await sms.http('POST', servers, { json: { ...fsRecord, stdio, sandbox: sandboxOf(served) } });
    const { status, body } = await sms.http('POST', `${servers}/fs/test`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ ok: true, server_id: 'fs', error: null });
    const tools = body.tools as { name: string; allowed: boolean }[];
    expect(tools.find(({ name }) => name === 'read_text_file')?.allowed).toBe(true);
    expect(tools.find(({ name }) => name === 'write_file')?.allowed).toBe(false);
    await sms.http('PUT', `${servers}/fs`, { json: { ...fsRecord, stdio: { command: '/no/such/command' } } });
    expect((await sms.http('POST', `${servers}/fs/test`)).body).toMatchObject({
      ok: false,
      error: { code: 'mcp_unavailable' },
    });
    expect((await sms.http('POST', `${servers}/nobody/test`)).status).toBe(404);
  }, 60_000);
});

it('hands out a consistent copy while it serves [sms.backup]', async () => {
  const sms = await startTestSms();
  await sms.http('POST', servers, { json: fsRecord });
  const response = await fetch(`${sms.sms.http}/admin/api/mcp/backup`, {
    method: 'POST',
    headers: { authorization: `Bearer ${sms.adminToken}` },
  });
  const copy = `${temporaryDirectory()}/copy.db`;
  writeFileSync(copy, Buffer.from(await response.arrayBuffer()));
  const db = new DatabaseSync(copy);
  expect(db.prepare('SELECT kind, id FROM records').all()).toEqual([{ kind: 'server', id: 'fs' }]);
  db.close();
});
