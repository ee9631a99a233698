import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ReportedState } from '../../../src/registry-client/node-report.ts';
import { fixture, sandboxOf } from '../../agent/mcp/client/pool-records.ts';
import { fsRecord, startTestSms, stopAll, temporaryDirectory } from '../../registry/running-sms.ts';
import { spawnSms } from '../../registry/sms-process.ts';
import { selfSigned } from '../../support/certificates.ts';
import { as, runSpear as run } from './run-spear.ts';

// Every command is a process of its own, and a busy machine starts those slowly.
vi.setConfig({ testTimeout: 120_000 });

afterEach(stopAll);

const recordFile = (id: string, more = '') =>
  `server_id = "${id}"\ntransport = "stdio"\nallowed_tools = ["read_*"]\n${more}[stdio]\ncommand = "x"\n`;

describe('profiles', () => {
  it('are applied from files, shown, and removed [sms.profiles]', async () => {
    const sms = await startTestSms();
    const directory = temporaryDirectory();
    writeFileSync(`${directory}/a.toml`, 'name = "a"\nserver_ids = ["git"]\ndescription = "for reviews"\n');
    const apply = await run(['profiles', 'apply', directory, '-'], as(sms), '{"name":"b","server_tags":["x"]}');
    expect(apply).toEqual({ code: 0, stdout: 'a created\nb created\n', stderr: '' });
    expect((await run(['profiles', 'apply', directory], as(sms))).stdout).toBe('a unchanged\n');
    writeFileSync(`${directory}/a.toml`, 'name = "a"\nserver_ids = ["git"]\ntool_denylist = ["rm_*"]\n');
    expect((await run(['profiles', 'apply', directory], as(sms))).stdout).toBe('a updated\n');
    const ls = await run(['profiles', 'ls'], as(sms));
    expect(ls.stdout).toMatch(/^NAME +SERVERS +TAGS +ALLOWED +DENIED +UPDATED +FROM +DESCRIPTION$/m);
    expect(ls.stdout).toMatch(/^a +git +- +\* +rm_\* +\d+s +api$/m);
    const get = await run(['profiles', 'get', 'a', '--json'], as(sms));
    expect(JSON.parse(get.stdout)).toMatchObject({ name: 'a', mod_revision: 3, tool_denylist: ['rm_*'] });
    expect(await run(['profiles', 'rm', 'a', 'nobody'], as(sms))).toEqual({
      code: 1,
      stdout: 'a removed\n',
      stderr: 'spear: nobody: there is no such profile\n',
    });
    writeFileSync(`${directory}/a.toml`, 'name = "a"\nserver_ids = "git"\n');
    const bad = await run(['profiles', 'apply', directory], as(sms));
    expect([bad.code, bad.stderr]).toEqual([1, `spear: ${directory}/a.toml:2: server_ids must be a list\n`]);
    expect((await run(['help', 'profiles'])).stdout).toContain('spear profiles apply PATH...');
  });
});

describe('servers', () => {
  it('are applied from files, directories and stdin, shown, and removed', async () => {
    const sms = await startTestSms();
    const directory = temporaryDirectory();
    writeFileSync(`${directory}/a.toml`, recordFile('a'));
    writeFileSync(`${directory}/b.json`, JSON.stringify({ ...fsRecord, server_id: 'b' }));
    const apply = await run(['servers', 'apply', directory, '-'], as(sms), recordFile('c'));
    expect(apply).toEqual({ code: 0, stdout: 'a created\nb created\nc created\n', stderr: '' });
    writeFileSync(`${directory}/a.toml`, recordFile('a', 'tags = ["new"]\n'));
    expect((await run(['servers', 'apply', `${directory}/a.toml`, `${directory}/b.json`], as(sms))).stdout).toBe(
      'a updated\nb unchanged\n',
    );

    const ls = await run(['servers', 'ls'], as(sms));
    expect(ls.stdout.split('\n')[0]).toMatch(/^ID +TRANSPORT +ALLOWED +HEALTH +TOOLS +UPDATED +FROM +LAST ERROR$/);
    expect(ls.stdout).toMatch(/^a +stdio +read_\* +- +- +\d+s +api$/m);
    const json = JSON.parse((await run(['servers', 'ls', '--json'], as(sms))).stdout);
    expect(json).toMatchObject({ revision: 4, servers: [{ server_id: 'a' }, { server_id: 'b' }, { server_id: 'c' }] });

    const get = await run(['servers', 'get', 'b'], as(sms));
    expect(get.stdout).toMatch(/^stdio: .*"LOG":"\*{8}"/m);
    expect(get.stdout).not.toContain('debug');
    expect(JSON.parse((await run(['servers', 'get', 'a', '--json'], as(sms))).stdout)).toMatchObject({ tags: ['new'] });

    expect(await run(['servers', 'rm', 'a', 'nobody', 'b'], as(sms))).toEqual({
      code: 1,
      stdout: 'a removed\nb removed\n',
      stderr: 'spear: nobody: there is no server "nobody"\n',
    });
    expect(JSON.parse((await run(['servers', 'rm', 'c', '--json'], as(sms))).stdout)).toEqual({
      removed: [{ server_id: 'c', revision: 7 }],
    });
  });

  it('of a bad file are not sent, and neither is anything else', async () => {
    const sms = await startTestSms();
    const directory = temporaryDirectory();
    writeFileSync(`${directory}/a.toml`, recordFile('a'));
    writeFileSync(`${directory}/b.toml`, recordFile('b', 'tags = 7\n'));
    const { code, stderr } = await run(['servers', 'apply', directory], as(sms));
    expect(code).toBe(1);
    expect(stderr).toMatch(/b\.toml:4: tags must be a list/);
    expect((await sms.http('GET', '/admin/api/mcp/servers')).body.revision).toBe(0);
    expect(await run(['servers', 'apply', `${directory}/none.toml`], as(sms))).toMatchObject({ code: 1 });
    expect(await run(['servers', 'apply', '-'], as(sms), '{"a":')).toMatchObject({ code: 1 });
  });

  it('are imported by a plan first, and exported for it', async () => {
    const sms = await startTestSms();
    const directory = temporaryDirectory();
    const file = `${directory}/all.json`;
    writeFileSync(file, JSON.stringify({ servers: [fsRecord, { ...fsRecord, server_id: 'b' }] }));
    const plan = await run(['servers', 'import', file], as(sms));
    expect(plan).toMatchObject({ code: 0, stderr: expect.stringContaining('nothing was changed; --yes') });
    expect(plan.stdout).toMatch(/^create +fs/m);
    expect((await sms.http('GET', '/admin/api/mcp/servers')).body.revision).toBe(0);
    expect((await run(['servers', 'import', file, '--yes', '--dry-run'], as(sms))).code).toBe(0);
    expect((await sms.http('GET', '/admin/api/mcp/servers')).body.revision).toBe(0);
    const applied = await run(['servers', 'import', file, '--yes', '--json'], as(sms));
    expect(JSON.parse(applied.stdout)).toMatchObject({ outcome: 'applied', revision: 2 });

    const masked = await run(['servers', 'export'], as(sms));
    expect(masked.stderr).toContain('b, fs are written as ********');
    expect(masked.stdout).not.toContain('debug');
    const revealed = `${directory}/revealed`;
    expect((await run(['servers', 'export', revealed, '--reveal'], as(sms))).code).toBe(0);
    expect(readdirSync(revealed).sort()).toEqual(['b.toml', 'fs.toml']);
    expect(statSync(`${revealed}/fs.toml`).mode & 0o777).toBe(0o600);
    expect(readFileSync(`${revealed}/fs.toml`, 'utf8')).toContain('LOG = "debug"');

    const other = await startTestSms();
    expect((await run(['servers', 'apply', revealed], as(other))).stdout).toBe('b created\nfs created\n');
    const { servers } = (await other.http('GET', '/api/v1/mcp/servers')).body as { servers: object[] };
    expect(servers).toMatchObject([{ ...fsRecord, server_id: 'b' }, fsRecord]);
    writeFileSync(`${directory}/masked.json`, masked.stdout);
    expect((await run(['servers', 'import', `${directory}/masked.json`], as(sms))).stdout).toMatch(/^unchanged +fs/m);
    await other.http('DELETE', '/admin/api/mcp/servers/fs');
    const refused = await run(['servers', 'import', `${directory}/masked.json`], as(other));
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('stdio.env.LOG') });
  });

  it('are tested where the caller is, with what the caller allows', async () => {
    const sms = await startTestSms();
    const everything = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-filesystem/dist/index.js'));
    const served = temporaryDirectory();
    const json = {
      ...fsRecord,
      sandbox: sandboxOf(served),
      stdio: {
        command: process.execPath,
        args: [everything, served],
        env: { KEY: `\${ENV:PRIVATE_KEY}` },
      },
    };
    await sms.http('POST', '/admin/api/mcp/servers', { json });
    const env = { ...as(sms), XDG_STATE_HOME: temporaryDirectory(), PRIVATE_KEY: 'a secret of the caller' };
    const refused = await run(['servers', 'test', 'fs'], env);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('--allow-env NAME') });
    const { code, stdout, stderr } = await run(['servers', 'test', 'fs', '--allow-env', 'PRIVATE_KEY'], env);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^yes +read_text_file/m);
    expect(stdout).toMatch(/^no +write_file/m);
    expect(stdout + stderr).not.toContain('a secret of the caller');
    const parsed = JSON.parse(
      (await run(['servers', 'test', 'fs', '--json', '--allow-env', 'PRIVATE_KEY'], env)).stdout,
    );
    expect(parsed).toMatchObject({ ok: true, server_id: 'fs' });

    const mute = [fixture('lists.mjs'), 'no_capability'];
    await sms.http('PUT', '/admin/api/mcp/servers/fs', {
      json: { ...fsRecord, sandbox: sandboxOf(), stdio: { command: process.execPath, args: mute } },
    });
    const without = await run(['servers', 'test', 'fs'], env);
    expect(without).toMatchObject({ code: 0, stderr: expect.stringContaining('the server declares no tools') });

    await sms.http('PUT', '/admin/api/mcp/servers/fs', {
      json: { ...fsRecord, stdio: { command: '/no/such/command' } },
    });
    const failed = await run(['servers', 'test', 'fs'], env);
    expect(failed).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('mcp_unavailable') });
    expect(await run(['servers', 'test', 'nobody'], env)).toMatchObject({ code: 1 });
  });
});

it('shows what nodes report, by server and by node', async () => {
  const sms = await startTestSms();
  await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
  const server = { serverId: 'fs', reconnects: 0 } as const;
  const send = (nodeId: string, servers: readonly object[], registryState: ReportedState = 'ready') =>
    sms
      .source()
      .report(
        { nodeId, registryState, epoch: '', snapshotRevision: 1, servers: servers as [] },
        AbortSignal.timeout(45_000),
      );
  await send('node-1', [{ ...server, health: 'connected', lastError: null, toolCount: 14 }]);
  await send('node-2', [{ ...server, health: 'down', lastError: 'no\u001b[31m such command', toolCount: null }]);
  const ls = await run(['servers', 'ls'], as(sms));
  expect(ls.stdout).toMatch(/^fs +stdio +read_\* +down 1\/2 +14 .*no \[31m such command$/m);
  const nodes = await run(['nodes', 'ls'], as(sms));
  expect(nodes.stdout).toMatch(/^NODE +PROCESSES +REGISTRY +REVISION +AGE +CONNECTED +DEGRADED +DOWN$/m);
  expect(nodes.stdout).toMatch(/^node-1 +1 +ready +1 +\d+s +1 +0 +0$/m);
  expect(nodes.stdout).toMatch(/^node-2 +1 +ready +1 +\d+s +0 +0 +1$/m);
  expect(JSON.parse((await run(['nodes', 'ls', '--json'], as(sms))).stdout).nodes).toHaveLength(2);
  // Every run reports; the machine is one node, as bad as the worst of them.
  await send('node-1:run-2', [{ ...server, health: 'down', lastError: null, toolCount: null }], 'degraded');
  await send('node-1:run-3', [], 'starting');
  expect((await run(['nodes', 'ls'], as(sms))).stdout).toMatch(/^node-1 +3 +degraded +1 +\d+s +1 +0 +1$/m);
  expect((await sms.http('GET', '/metrics')).text).toMatch(/^spear_sms_nodes 2$/m);
});

describe('exit codes', () => {
  it('tell a script what happened [cli.spear.exit_codes]', async () => {
    const sms = await startTestSms();
    expect(await run(['servers', 'get', 'nobody'], as(sms))).toMatchObject({ code: 1 });
    const usage = [
      [],
      ['servers', 'sl'],
      ['servers', 'get'],
      ['servers', 'ls', 'x'],
      ['servers', 'ls', '--sms', 'ftp://x'],
    ];
    for (const args of usage) expect(await run(args, as(sms))).toMatchObject({ code: 2, stdout: '' });
    const away = await run(['servers', 'ls'], { SPEAR_SMS: 'http://127.0.0.1:1' });
    expect(away).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('cannot connect to the registry at http://127.0.0.1:1'),
    });
    expect(await run(['servers', 'ls'], as(sms, 'wrong-token-wrong-token'))).toMatchObject({ code: 4 });
    expect(await run(['servers', 'ls'], as(sms, sms.nodeToken))).toMatchObject({ code: 4 });
    const none = await run(['servers', 'ls'], { SPEAR_SMS: sms.sms.http });
    expect(none).toMatchObject({ code: 4, stderr: expect.stringContaining('no token found') });
  });

  it('and help are documented', async () => {
    const { code, stdout } = await run(['--help']);
    expect(code).toBe(0);
    for (const word of ['servers apply', 'nodes ls', 'spear registry serve', 'spear COMMAND --help']) {
      expect(stdout).toContain(word);
    }
    for (const words of [['--version'], ['version']]) expect((await run(words)).stdout).toMatch(/^spear \d/);
  });
});

it('finds the registry of this user and its token by itself', async () => {
  const state = temporaryDirectory();
  const { spawnSms } = await import('../../registry/sms-process.ts');
  await spawnSms(['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'], { XDG_STATE_HOME: state });
  const { code, stdout } = await run(['servers', 'ls', '--json'], { XDG_STATE_HOME: state });
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ revision: 0 });
});

it('trusts the certificates that it is given, and tells the gRPC side from the HTTP side [cli.spear.exit_codes]', async () => {
  const directory = temporaryDirectory();
  const { cert, key } = selfSigned();
  writeFileSync(`${directory}/cert.pem`, cert);
  writeFileSync(`${directory}/key.pem`, key, { mode: 0o600 });
  const sms = await startTestSms({ tls: { cert: `${directory}/cert.pem`, key: `${directory}/key.pem` } });
  const args = ['servers', 'ls', '--json', '--token', sms.adminToken, '--sms'];
  const address = sms.sms.http.replace('127.0.0.1', 'localhost');
  const trusted = await run([...args, address, '--ca', `${directory}/cert.pem`]);
  expect(trusted).toMatchObject({ code: 0 });
  expect(JSON.parse(trusted.stdout)).toMatchObject({ revision: 0 });
  expect(await run([...args, address])).toMatchObject({ code: 3, stdout: '' });
  const plain = await startTestSms();
  const wrongSide = await run([...args, plain.sms.grpc]);
  expect(wrongSide).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('--sms takes the address of its HTTP side'),
  });
});

it('gives the token of a registry that was killed to nobody who took its port [sms.client.proved]', async () => {
  const state = temporaryDirectory();
  const data = join(state, 'spear', 'sms', 'registry.db');
  const env = { XDG_STATE_HOME: state };
  const sms = await spawnSms(['--data', data, '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0']);
  expect(await run(['servers', 'ls', '--json'], env)).toMatchObject({ code: 0, stderr: '' });
  await sms.end('SIGKILL');
  const heard: Buffer[] = [];
  const impostor = createServer((socket) => socket.on('data', (chunk) => heard.push(Buffer.from(chunk))));
  await new Promise<void>((resolve) => impostor.listen(Number(sms.http.split(':').at(-1)), '127.0.0.1', resolve));
  for (const more of [[], ['--sms', sms.http.replace('http://', '')]]) {
    const { code, stderr } = await run(['servers', 'ls', ...more], env);
    expect({ code, stderr }).toEqual({ code: 3, stderr: expect.stringContaining('start it with "spear-sms"') });
  }
  impostor.close();
  expect(heard).toEqual([]);
});
