import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { diagnoseNode } from '../../../src/cli/doctor/command.ts';
import { bad, type Finding, ok, reportText, skipped, summaryOf } from '../../../src/cli/doctor/finding.ts';
import { npmServer, sandboxOf } from '../../agent/mcp/client/pool-records.ts';
import { processesWith } from '../../agent/mcp/client/pool-samples.ts';
import { fileWith, recordDir, recordOf, script, taskWithMcp } from '../../agent/mcp/mcp-run.ts';
import { fixture, scratch } from '../../e2e/spear-run.ts';
import { SteeredModel } from '../../e2e/steered-model.ts';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { inEnoughTime } from '../../support/enough-time.ts';
import { until } from '../../support/until.ts';
import { all, doctor, one, spear } from './doctor-run.ts';

// Every command is a process of its own, and a busy machine starts those slowly.
vi.setConfig({ testTimeout: 120_000 });

const models: SteeredModel[] = [];

afterEach(async () => {
  for (const model of models.splice(0)) await model.stop();
  await stopAll();
});

const chats = fixture('c/files.wasm');
const tiny = (fields: Readonly<Record<string, unknown>> = {}) =>
  recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs', fields) });
const tinyTask = () => [...taskWithMcp(['tiny']), '--mcp-dir', tiny()];

async function steered(): Promise<{ model: SteeredModel; env: Record<string, string> }> {
  const model = new SteeredModel();
  models.push(model);
  const url = await model.start();
  return { model, env: { OPENAI_BASE_URL: url, OPENAI_API_KEY: 'canary-key-1234', OPENAI_MODEL: 'steered' } };
}

describe('spear doctor', () => {
  it('finds nothing wrong with a task that works, to the tool call of its model [doctor.chain]', async () => {
    const notes = {
      server_id: 'notes',
      transport: 'stdio',
      stdio: { command: process.execPath, args: [npmServer('filesystem'), fixture('demo/notes')] },
      allowed_tools: ['read_*', 'list_*'],
    };
    const { model, env } = await steered();
    const flags = [
      ...taskWithMcp(['notes'], { 'mcp.tool_denylist': ['read_media*'] }),
      '--mcp-dir',
      recordDir({ 'notes.json': notes }),
    ];
    const running = doctor([chats, ...flags], env);
    const request = await model.next();
    expect(request.tools?.map((tool) => tool.function.name)).toEqual(['spear_doctor_ping']);
    request.call('spear_doctor_ping', { ok: true });
    const { code, ok: good, findings, text } = await running;
    expect({ code, good }).toEqual({ code: 0, good: true });
    expect(findings.map(({ what, status }) => [what, status])).toEqual([
      ['node', 'ok'],
      ['module', 'ok'],
      ['task', 'ok'],
      ['registry', 'ok'],
      ['server', 'ok'],
      ['backend', 'ok'],
      ['model', 'ok'],
    ]);
    expect(one(findings, 'server').children.map(({ what }) => what)).toEqual([
      'record',
      'references',
      'connect',
      'tools_list',
      'tools',
    ]);
    expect(one(findings, 'tools_list').text).toMatch(/^tools\/list: 14 tools in \d+ ms$/);
    expect(one(findings, 'registry').text).toContain('revision 1, 1 server, ready');
    const tool = (name: string) => all(findings, 'tool').find(({ text: said }) => said.startsWith(`${name}: `));
    expect(tool('read_file')?.text).toBe('read_file: registry allowed_tools "read_*"; as mcp__bm90ZXM__cmVhZF9maWxl');
    expect(tool('read_media_file')).toMatchObject({ status: 'skipped', cause: 'denied_by_task' });
    expect(tool('write_file')).toMatchObject({ status: 'skipped', cause: 'denied_by_registry' });
    expect(text).not.toContain('canary-key');
  });

  it('prints a tree with marks and fixes, without colours into a pipe', async () => {
    const flags = [...taskWithMcp(['tiny', 'gone']), '--mcp-dir', tiny(), '--no-model'];
    const { code, stdout, stderr } = await spear(['doctor', chats, ...flags]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
    expect(stdout).toMatch(/^✓ Node \d+\.\d+\.\d+, with JSPI$/m);
    expect(stdout).toMatch(/^✗ server gone: "gone" is not in the registry; it has "tiny"\n {2}fix: register "gone"/m);
    expect(stdout).toMatch(/^✓ server tiny\n├ ✓ server at revision 1: stdio/m);
    expect(stdout).toMatch(
      /^└ ✓ 5 of 5 tools are shown to the model\n {2}├ ✓ echo: registry allowed_tools "\*"; as mcp__/m,
    );
    expect(stdout).toMatch(/^– backend "stub" is a built-in stub/m);
    expect(stdout).toMatch(/\n\n1 problem found\n$/);
    expect(stdout).not.toContain('\x1b');
  });

  it('follows an SMS, and what it lets records refer to', async () => {
    const sms = await startTestSms();
    const env = { MY_TOKEN: 'canary-one', MCP_OTHER: 'canary-two' };
    const references = { TOKEN: `\${ENV:MY_TOKEN}`, OTHER: `\${ENV:MCP_OTHER}` };
    const record = recordOf('tiny', 'tiny.mjs', { env: references, sandbox: sandboxOf() });
    expect((await sms.http('POST', '/admin/api/mcp/servers', { json: record })).status).toBe(201);
    const flags = [chats, ...taskWithMcp(['tiny']), '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, '--no-model'];
    const refused = await doctor(flags, env);
    expect(refused.code).toBe(1);
    expect(one(refused.findings, 'references')).toMatchObject({ status: 'bad', cause: 'env_refused' });
    expect(one(refused.findings, 'reference').text).toBe('MY_TOKEN: not allowed for servers');
    const config = fileWith('config.toml', '[mcp]\nallow_env = ["MY_TOKEN"]\nstdio = "allow"\n');
    const allowed = await doctor([...flags, '--config', config], env);
    expect(one(allowed.findings, 'references').text).toBe('references: MCP_OTHER, MY_TOKEN');
    expect(allowed.code).toBe(0);
    expect(refused.text + allowed.text).not.toContain('canary');
  });

  it('lists tokens of namespace admins whose names an approver rule reserves [approval.reserved]', async () => {
    const sms = await startTestSms();
    const create = async (json: object, token = sms.adminToken) =>
      String((await sms.http('POST', '/admin/api/tokens', { json, token })).body.token);
    const boss = await create({ name: 'boss', roles: ['admin'], namespace: 'team-a' });
    await create({ name: 'ops-1', roles: ['approver'] }, boss);
    const rule = { name: 'ops', namespaces: ['*'], servers: ['*'], tools: ['*'], approvers: ['ops-*'] };
    sms.reconfigure({ approverRules: [{ ...rule, needed: 1, allowSelf: false }] });
    await sms.sms.reload();
    const flags = [chats, ...taskWithMcp(['tiny']), '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, '--no-model'];
    const env = { SPEAR_SMS: sms.sms.http, SPEAR_SMS_TOKEN: sms.adminToken };
    const { findings, text } = await doctor(flags, env);
    expect(one(findings, 'token')).toMatchObject({ status: 'bad', cause: 'reserved_name' });
    expect(one(findings, 'token').text).toContain('token "ops-1" of the namespace "team-a", created by "boss"');
    expect(text).not.toContain(sms.adminToken);
    const { findings: asNode } = await doctor(flags, { ...env, SPEAR_SMS_TOKEN: sms.nodeToken });
    expect(one(asNode, 'tokens').status).toBe('skipped');
  });

  it('names variables that are missing and starts no server without them', async () => {
    const trail = join(scratch, `trail-${randomUUID()}`);
    const record = recordOf('lists', 'lists.mjs', {
      args: ['wide', '1'],
      env: { TRAIL: trail, A: `\${ENV:FIRST_ONE}`, B: `\${ENV:SECOND_ONE}`, C: `\${ENV:THIRD_ONE:-fallback}` },
    });
    const flags = [chats, ...taskWithMcp(['lists']), '--mcp-dir', recordDir({ 'lists.json': record }), '--no-model'];
    const { code, findings } = await doctor(flags, { SECOND_ONE: '' });
    expect(code).toBe(1);
    expect(one(findings, 'references')).toMatchObject({ status: 'bad', cause: 'env_missing' });
    expect(one(findings, 'references').text).toContain('FIRST_ONE');
    expect(one(findings, 'references').fix).toContain('FIRST_ONE');
    expect(one(findings, 'connect').status).toBe('skipped');
    expect(existsSync(trail)).toBe(false);
  });

  it('tells how to close a file that others can read, as it does of the config that lacks a name', async () => {
    const key = fileWith('key', 'canary-in-file');
    chmodSync(key, 0o644);
    const http = { url: 'http://127.0.0.1:1/mcp', auth_ref: `file:${key}` };
    const record = { server_id: 'web', transport: 'streamable_http', http, allowed_tools: ['*'] };
    const flags = [...taskWithMcp(['web']), '--mcp-dir', recordDir({ 'web.json': record }), '--no-model'];
    const { findings, text } = await doctor([chats, ...flags]);
    expect(one(findings, 'references')).toMatchObject({ status: 'bad', fix: `run: chmod 600 ${key}` });
    expect(text).not.toContain('canary');
  });

  it('tells the command to log in with, where nobody has [mcp.oauth.login.missing]', async () => {
    const http = { url: 'http://127.0.0.1:1/mcp', oauth: { grant: 'authorization_code' } };
    const record = { server_id: 'web', transport: 'streamable_http', http, allowed_tools: ['*'] };
    const flags = [...taskWithMcp(['web']), '--mcp-dir', recordDir({ 'web.json': record }), '--no-model'];
    const { findings } = await doctor([chats, ...flags]);
    expect(one(findings, 'connect')).toMatchObject({ status: 'bad', fix: 'run: spear servers login web' });
  });

  it('names the rules for egress where they keep a server out', async () => {
    const http = { url: 'http://10.1.2.3/mcp' };
    const record = { server_id: 'web', transport: 'streamable_http', http, allowed_tools: ['*'] };
    const flags = [...taskWithMcp(['web']), '--mcp-dir', recordDir({ 'web.json': record }), '--no-model'];
    const { findings } = await doctor([chats, ...flags]);
    expect(one(findings, 'connect')).toMatchObject({ status: 'bad', cause: 'egress_denied' });
    expect(one(findings, 'connect').fix).toContain('[egress] allow_hosts or allow_addresses');
  });

  it.each([
    ['is not there', { command: 'no-such-command-here' }, 'spawn_failed', 'install "no-such-command-here"'],
    ['is no MCP server', { command: 'true' }, 'server_exited', 'run "true" with its arguments manually'],
  ])('says so where the command %s', async (_, stdio, cause, fix) => {
    const record = { server_id: 'odd', transport: 'stdio', stdio, allowed_tools: ['*'] };
    const flags = [...taskWithMcp(['odd']), '--mcp-dir', recordDir({ 'odd.json': record }), '--no-model'];
    const { code, findings } = await doctor([chats, ...flags]);
    expect(code).toBe(1);
    expect(one(findings, 'connect')).toMatchObject({ status: 'bad', cause });
    expect(one(findings, 'connect').fix).toContain(fix);
  });

  it('says so where an HTTP server is not there', async () => {
    const http = { url: 'http://127.0.0.1:1/mcp?key=canary-in-url', headers: { 'x-key': 'canary-in-header' } };
    const record = { server_id: 'web', transport: 'streamable_http', http, allowed_tools: ['*'] };
    const flags = [...taskWithMcp(['web']), '--mcp-dir', recordDir({ 'web.json': record }), '--no-model'];
    const { code, findings, text } = await doctor([chats, ...flags]);
    expect(code).toBe(1);
    expect(one(findings, 'record').text).toContain('streamable_http, host 127.0.0.1:1');
    expect(one(findings, 'connect').status).toBe('bad');
    // A port that is never called: what fetch says of it is further down than "fetch failed".
    expect(one(findings, 'connect').text).toContain('failed: bad port');
    expect(text).not.toContain('canary');
  });

  it('ends what it started, and shows what the server said, without its secrets', async () => {
    const mark = `mark-${randomUUID()}`;
    const record = recordOf('mute', 'mute.mjs', { env: { MARK: mark, API_TOKEN: `\${ENV:CANARY}` } });
    const flags = [...taskWithMcp(['mute']), '--mcp-dir', recordDir({ 'mute.json': record })];
    const env = { CANARY: 'canary-value-of-mute' };
    await inEnoughTime(3_000, async (ms) => {
      const question = [chats, ...flags, '--no-model', '--timeout-ms', String(ms)];
      const { code, findings, text } = await doctor(question, env);
      expect(code).toBe(1);
      expect(one(findings, 'connect')).toMatchObject({ status: 'bad', cause: 'connect_timeout' });
      expect(text).not.toContain('canary-value-of-mute');
      expect(processesWith(mark)).toEqual([]);
      expect(one(findings, 'stderr').text).toContain('waiting for a database');
    });
  });

  it('ends its servers when it is interrupted, and blames nobody', async () => {
    const mark = `mark-${randomUUID()}`;
    const record = recordOf('mute', 'mute.mjs', { env: { MARK: mark } });
    const flags = [...taskWithMcp(['mute']), '--mcp-dir', recordDir({ 'mute.json': record }), '--no-model'];
    let interrupted: Promise<unknown> = Promise.resolve();
    const ended = spear(['doctor', chats, ...flags], {}, (child) => {
      interrupted = until(() => processesWith(mark).length > 0, 'the server').then(() => child.kill('SIGINT'));
    });
    await interrupted;
    const { code, stdout, stderr } = await ended;
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
    expect(stderr).toContain('spear: interrupted');
    expect(processesWith(mark)).toEqual([]);
  });

  it('starts nothing with --offline, and still knows the policy', async () => {
    const trail = join(scratch, `trail-${randomUUID()}`);
    const record = recordOf('lists', 'lists.mjs', { args: ['wide', '1'], env: { TRAIL: trail } });
    const { model, env } = await steered();
    const flags = [...taskWithMcp(['lists', 'gone']), '--mcp-dir', recordDir({ 'lists.json': record }), '--offline'];
    const { code, findings } = await doctor([chats, ...flags], env);
    expect(code).toBe(1);
    expect(one(findings, 'connect').text).toContain('--offline');
    expect(all(findings, 'server').map(({ cause }) => cause)).toContain('unknown_server');
    expect(one(findings, 'model').status).toBe('skipped');
    expect(existsSync(trail)).toBe(false);
    await model.stop();
  });

  it('shows the hash that stands for a long name, and tools that cannot be told apart', async () => {
    const long = `tool_${'x'.repeat(70)}`;
    const server = fileWith(
      'long.mjs',
      `import { serve, text } from ${JSON.stringify(fixture('mcp-servers/raw-rpc.mjs'))};
       serve({ ${long}: { call: () => text('') }, b_c: { call: () => text('') } });`,
    );
    const stdio = { command: process.execPath, args: [server] };
    const record = { transport: 'stdio', stdio, allowed_tools: ['*'] };
    const dir = recordDir({
      'a.json': { ...record, server_id: 'a' },
      'b.json': { ...record, server_id: 'b', tool_prefix: 'a' },
    });
    const flags = [...taskWithMcp(['a', 'b']), '--mcp-dir', dir, '--no-model', '--param', 'mcp.tool_naming="readable"'];
    const { code, findings } = await doctor([chats, ...flags]);
    expect(code).toBe(0);
    const hashed = all(findings, 'tool').filter(({ text }) => text.includes('a hash'));
    expect(hashed).toHaveLength(2);
    expect(hashed[0]?.text).toMatch(
      /as mcp__[A-Za-z0-9_-]{43} \(.*a hash: the full name has 109 characters; the limit of models is 64\)/,
    );
    const note = 'a_b_c could be a tool of another server: set another tool_prefix to distinguish them';
    const shared = all(findings, 'tool').filter(({ text }) => text.includes(`(${note})`));
    expect(shared.map(({ text }) => / as (\S+) /.exec(text)?.[1])).toEqual([
      encodedName('a', 'b_c'),
      encodedName('b', 'b_c'),
    ]);
  });

  it('says that a server declares no tools', async () => {
    const dir = recordDir({ 'none.json': recordOf('none', 'lists.mjs', { args: ['no_capability'] }) });
    const { code, findings } = await doctor([chats, ...taskWithMcp(['none']), '--mcp-dir', dir, '--no-model']);
    expect(code).toBe(1);
    expect(one(findings, 'tools')).toMatchObject({
      status: 'bad',
      cause: 'no_tools',
      text: expect.stringContaining('the server declares no tools'),
    });
  });

  it('names tools that the server describes wrongly', async () => {
    const dir = recordDir({ 'schemas.json': recordOf('schemas', 'schemas.mjs') });
    const { code, findings } = await doctor([chats, ...taskWithMcp(['schemas']), '--mcp-dir', dir, '--no-model']);
    expect(code).toBe(1);
    const wrong = all(findings, 'tool').filter(({ status }) => status === 'bad');
    expect(wrong.map(({ cause }) => cause)).toEqual(expect.arrayContaining(['schema_invalid', 'name_collision']));
    expect(wrong.some(({ text }) => text.startsWith('deep: '))).toBe(true);
  });

  it('tells of approvals that a tool needs', async () => {
    const rules = JSON.stringify([{ name: 'no pids', tools: ['pid'], verdict: 'deny' }]);
    const dir = tiny({ approval_policy: { default: 'never', per_tool: { echo: 'always', fail: 'policy' } } });
    const task = fileWith('task.json', {
      config: { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["tiny"]', 'mcp.approval_rules': rules },
    });
    const { findings } = await doctor([chats, '--task-config', task, '--mcp-dir', dir, '--no-model']);
    const said = (name: string) => all(findings, 'tool').find(({ text }) => text.startsWith(`${name}: `))?.text;
    expect(said('echo')).toContain('every call needs an approval (approval_policy: always)');
    expect(said('fail')).toContain('no rule matches: every call needs an approval');
    expect(said('pid')).toContain('may be denied by "no pids" of the task\'s rules');
    expect(said('structured')).not.toContain('asked');
  });

  it('names what is wrong with the module and the task, one by one', async () => {
    const task = fileWith('task.json', { config: { 'mcp.enabled': 'yes', 'mcp.tool_alowlist': '[]' } });
    const wasm = fileWith('odd.wasm', 'not wasm');
    const { code, findings } = await doctor([wasm, '--task-config', task]);
    expect(code).toBe(1);
    expect(one(findings, 'module')).toMatchObject({
      status: 'bad',
      text: expect.stringContaining('not a WebAssembly'),
    });
    expect(all(findings, 'task_key').map(({ text }) => text)).toEqual([
      'config.mcp.tool_alowlist is not a key of the task config; did you mean "mcp.tool_allowlist"?',
      'config.mcp.enabled must be true or false',
    ]);
    const missing = await doctor(['nowhere.wasm', '--task-config', 'nowhere.json']);
    expect(one(missing.findings, 'module').text).toBe('nowhere.wasm: no such file');
    expect(one(missing.findings, 'task').text).toContain('nowhere.json');
    expect(one(missing.findings, 'task').fix).toBe('check the path of --task-config');
    const imports = await doctor([fixture('assemblyscript/hello.wasm'), '--no-model']);
    expect(imports.code).toBe(0);
  });

  it('takes components as well as core modules', async () => {
    const wasm = fixture('rust/chat.component.wasm');
    const { code, findings } = await doctor([wasm, ...tinyTask(), '--offline']);
    expect(one(findings, 'module').text).toMatch(/: component: /);
    expect(one(findings, 'imports').text).toContain('spear:host/cchat@');
    expect(one(findings, 'tool_use').status).toBe('skipped');
    expect(code).toBe(0);
  });

  it('names what is wrong with the host config', async () => {
    const config = fileWith('config.toml', '[backends.main]\nkind = "opneai"\n');
    const { code, findings } = await doctor([chats, ...tinyTask(), '--config', config]);
    expect(code).toBe(1);
    expect(one(findings, 'host')).toMatchObject({ status: 'bad', cause: 'host_config' });
    expect(one(findings, 'host').text).toContain(config);
  });

  it('exits with 2 for bad usage, and has help', async () => {
    for (const args of [
      [],
      ['a.wasm', 'b.wasm'],
      ['a.wasm', '--timeout-ms', '0'],
      ['a.wasm', '--param', 'temperature=1'],
      ['a.wasm', '--param', 'mcp.server_ids=fs'],
      ['a.wasm', '--offlien'],
    ]) {
      const { code, stdout, stderr } = await spear(['doctor', ...args]);
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' });
      expect(stderr).toMatch(/^spear: .+\n$/);
    }
    const param = await spear(['doctor', 'a.wasm', '--param', 'mcp.server_id=["fs"]']);
    expect(param.stderr).toBe('spear: --param mcp.server_id: did you mean "mcp.server_ids"?\n');
    const typo = await spear(['docter', 'a.wasm']);
    expect(typo).toEqual({
      code: 2,
      stdout: '',
      stderr: 'spear: unknown command "spear docter"; did you mean "spear doctor"?\n',
    });
    expect((await spear(['servers', 'lst'])).stderr).toContain('did you mean "spear servers ls"?');
    expect((await spear(['nothing', 'alike'])).stderr).toContain('commands: servers, ');
    expect((await spear(['doctor', '--help'])).stdout).toContain('spear doctor FILE.wasm [options]');
    expect((await spear(['--help'])).stdout).toMatch(/spear doctor FILE\.wasm[\s\S]*spear explain SERVER NAME/);
  });
});

describe('the model', () => {
  const check = async (env: Record<string, string>, more: readonly string[] = []) =>
    (await doctor([chats, ...tinyTask(), '--offline', ...more], env)).findings;

  it('is wrong if it answers without the tool it was told to call', async () => {
    const { model, env } = await steered();
    const running = doctor([chats, ...tinyTask()], env);
    (await model.next()).say('I cannot access external files or systems.');
    const { code, findings } = await running;
    expect(code).toBe(1);
    expect(one(findings, 'backend').status).toBe('ok');
    expect(one(findings, 'model')).toMatchObject({ status: 'bad', cause: 'no_tool_calls' });
  });

  it('is not reached where the backend is not', async () => {
    const env = { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', OPENAI_API_KEY: 'canary-key-1234', OPENAI_MODEL: 'm' };
    const { code, findings, text } = await doctor([chats, '--timeout-ms', '20000'], env);
    expect(code).toBe(1);
    expect(one(findings, 'backend')).toMatchObject({ status: 'bad', fix: expect.stringContaining('OPENAI_BASE_URL') });
    expect(one(findings, 'model').status).toBe('skipped');
    expect(text).not.toContain('canary-key');
  });

  it.each([
    [401, 'OPENAI_API_KEY'],
    [404, 'OPENAI_MODEL'],
    [400, 'may not support tools'],
  ])('is wrong where a backend that is there answers with %i', async (status, fix) => {
    const provider = createServer((_, res) => res.writeHead(status).end(JSON.stringify({ error: { message: 'no' } })));
    await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`;
    const env = { OPENAI_BASE_URL: url, OPENAI_API_KEY: 'canary-key-1234', OPENAI_MODEL: 'm' };
    const { code, findings } = await doctor([chats], env);
    provider.closeAllConnections();
    provider.close();
    expect(code).toBe(1);
    expect(one(findings, 'backend').status).toBe('ok');
    expect(one(findings, 'model')).toMatchObject({ status: 'bad', fix: expect.stringContaining(fix) });
  });

  it('has a deadline', async () => {
    const { env } = await steered(); // nobody takes the request
    const { code, findings } = await doctor([chats, '--timeout-ms', '1500'], env);
    expect(code).toBe(1);
    expect(one(findings, 'backend')).toMatchObject({ status: 'bad', cause: 'timeout' });
  });

  it('is not asked where a script or a stub answers, which are named', async () => {
    const stub = await check({});
    expect(one(stub, 'backend')).toMatchObject({ status: 'skipped', cause: 'stub' });
    const scripted = await check({}, script({ reply: { content: 'hi' } }));
    expect(one(scripted, 'backend')).toMatchObject({ status: 'ok', text: expect.stringContaining('is a script') });
    const broken = await doctor([chats, '--script', fileWith('script.json', '{')]);
    expect(one(broken.findings, 'backend').status).toBe('bad');
    const unknown = await doctor([chats, '--backend', 'nobody']);
    expect(one(unknown.findings, 'backend')).toMatchObject({ status: 'bad', cause: 'unknown_backend' });
  });
});

describe('the report', () => {
  it('has colours on a terminal, and nothing that a server could steer it with', () => {
    const findings = [
      ok('a', 'good', [skipped('b', 'evil \x1b[2J\rtext')]),
      bad('c', 'wrong', { cause: 'x', fix: 'mend it', children: [ok('d', 'below')] }),
    ];
    expect(reportText(findings, summaryOf(findings), { colours: false })).toBe(
      '✓ good\n└ – evil  [2J text\n✗ wrong\n│ fix: mend it\n└ ✓ below\n\n1 problem found\n',
    );
    expect(reportText(findings, '', { colours: true })).toContain('\x1b[31m✗\x1b[0m wrong');
  });

  it('counts causes: not the branches above one, nor every line that it shows in', () => {
    const key = (fix: string) => bad('task_key', 'wrong', { cause: 'task_config', fix });
    const branch = (children: Finding[]) => bad('task', 'wrong', { cause: 'task_config', fix: 'below', children });
    const token = () => bad('references', 'TOKEN is not set', { cause: 'env_missing', fix: 'set TOKEN' });
    expect(summaryOf([ok('node', 'fine')])).toBe('no problems found');
    expect(summaryOf([branch([key('correct a')])])).toBe('1 problem found');
    expect(summaryOf([branch([key('correct a'), key('correct b')])])).toBe('2 problems found');
    expect(summaryOf([ok('server', 'a', [token()]), ok('server', 'b', [token()])])).toBe('1 problem found');
  });

  it.each<[string, () => string[]]>([
    ['a wrong file', () => [...taskWithMcp(['tiny']), '--mcp-dir', recordDir({ 'tiny.json': '{"server_id": "tiny"' })]],
    [
      'a wrong file beside a good one',
      () => {
        const good = recordOf('other', 'tiny.mjs', {});
        return [...taskWithMcp(['tiny', 'other']), '--mcp-dir', recordDir({ 'tiny.json': '{', 'other.json': good })];
      },
    ],
    ['an empty registry', () => [...taskWithMcp(['tiny', 'other']), '--mcp-dir', recordDir({})]],
    ['a wrong key', () => ['--task-config', fileWith('task.json', { config: { 'mcp.enabled': 'yes' } })]],
    ['a session without MCP', () => [...taskWithMcp(['tiny']), '--mcp-dir', tiny(), '--param', 'mcp.enabled=false']],
  ])('says "1 problem found" for %s', async (_, flags) => {
    const { code, stdout } = await spear(['doctor', chats, ...flags(), '--no-model']);
    expect(stdout).toMatch(/\n1 problem found\n$/);
    expect(code).toBe(1);
  });

  it('shows a person the first of many, and every one that is wrong', () => {
    const tools = Array.from({ length: 100 }, (_, index) => ok('tool', `tool ${index}`));
    const text = reportText([ok('tools', 'many', [...tools, bad('tool', 'broken', { cause: 'x', fix: 'y' })])], '', {
      colours: false,
    });
    expect(text).toContain('tool 39\n');
    expect(text).not.toContain('tool 40\n');
    expect(text).toContain('✗ broken');
    expect(text).toContain('… and 60 more; --json has them all');
  });

  it('calls an old Node, or one without JSPI, wrong', () => {
    expect(diagnoseNode('26.1.0', true).status).toBe('ok');
    expect(diagnoseNode('22.9.0', false)).toMatchObject({ status: 'bad', cause: 'old_node' });
    expect(diagnoseNode('24.0.0', false)).toMatchObject({ status: 'bad', cause: 'no_jspi' });
  });
});
