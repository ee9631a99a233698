import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { OriginalClient } from '../registry/original-client.ts';
import { stopAll } from '../registry/running-sms.ts';
import { type SmsProcess, spawnSms } from '../registry/sms-process.ts';
import { builtCommand } from '../support/built-command.ts';
import { calls, playModel } from './canary-places.ts';
import { folder, hostConfig, plantRecords, privateFile, taskConfig } from './canary-records.ts';
import { Cli, fixture, root, scratch } from './spear-run.ts';
import { SteeredModel } from './steered-model.ts';

vi.setConfig({ testTimeout: 180_000 });

afterEach(stopAll);

describe('a secret that goes into spear-sms', () => {
  const spearEntry = builtCommand('spear');
  const smsMistake = () =>
    privateFile(
      'mistake.cjs',
      `process.on('SIGUSR2', () => { throw new Error(require('fs').readFileSync(process.env.LEAK, 'utf8')); });`,
    );

  function spear(
    sms: SmsProcess,
    token: string,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Promise<string> {
    return new Promise((resolve) => {
      const options = {
        env: { PATH: process.env.PATH, HOME: scratch, SPEAR_SMS: sms.http, SPEAR_SMS_TOKEN: token, ...env },
        timeout: 60_000,
      };
      execFile(process.execPath, [spearEntry, ...args], options, (_error, stdout, stderr) => resolve(stdout + stderr));
    });
  }

  it('comes out to nodes alone, over their own way in [secrets.canary]', async () => {
    const { canaries, records, env } = await plantRecords();
    const data = folder();
    const directory = folder();
    const argument = canaries.plant('argument-literal', true);
    const fallback = canaries.know('default-of-a-reference', `sk-${canaries.plant('x', true)}`);
    const { leaky } = records as { leaky: { stdio: { env: object; args: string[] }; http?: object } };
    const stored = {
      ...records,
      leaky: {
        ...leaky,
        stdio: {
          ...leaky.stdio,
          args: [...leaky.stdio.args, '--token', argument, `--api-key=${argument}`],
          env: { ...leaky.stdio.env, SECRET_DEFAULT: `\${ENV:MCP_NOT_SET:-${fallback}}` },
        },
      },
    };
    for (const [id, record] of Object.entries(stored))
      writeFileSync(join(directory, `${id}.json`), JSON.stringify(record));
    writeFileSync(
      join(directory, 'broken.toml'),
      `server_id = "broken"\ntransport = "stdio"\n[stdio]\ncommand = 7\nenv = { A = "${canaries.plant('broken-file', true)}" }\n`,
    );
    const config = privateFile(
      'sms.toml',
      '[mcp]\nallow_server_test = true\n[egress]\nallow_addresses = ["loopback"]\n',
    );
    const smsArgs = ['--data', join(data, 'registry.db'), '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'];
    const sms = await spawnSms([...smsArgs, '--mcp-registry-dir', directory, '--config', config], {
      ...env,
      HOME: data,
      PATH: process.env.PATH,
      LEAK: join(data, 'admin.token'),
      NODE_OPTIONS: `--require=${smsMistake()}`,
    });
    const admin = canaries.know('admin-token', readFileSync(join(data, 'admin.token'), 'utf8').trim());
    const node = canaries.know('node-token', readFileSync(join(data, 'node.token'), 'utf8').trim());

    const out: Record<string, string> = {};
    const ask = async (
      method: string,
      path: string,
      { token = admin, body }: { token?: string; body?: object } = {},
    ) => {
      const response = await fetch(`${sms.http}${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(60_000),
      });
      out[`${method} ${path} as ${token === admin ? 'admin' : token}`] =
        `${JSON.stringify([...response.headers])} ${await response.text()}`;
      return response.status;
    };
    const base = '/admin/api/mcp';
    for (const path of [`${base}/servers`, `${base}/nodes`, '/metrics', '/healthz', '/readyz'])
      expect(await ask('GET', path)).toBe(200);
    for (const id of Object.keys(stored)) {
      expect(await ask('GET', `${base}/servers/${id}`)).toBe(200);
      expect(await ask('POST', `${base}/servers/${id}/test`), out[`POST ${base}/servers/${id}/test as admin`]).toBe(
        200,
      );
    }
    const all = { servers: Object.values(stored) };
    expect(await ask('POST', `${base}/servers/import`, { body: all })).toBe(200);
    const wrong = {
      ...stored.leaky,
      server_id: `not valid ${admin}`,
      transport: argument,
      stdio: { env: { A: 7, B: [argument] } },
    };
    expect(await ask('POST', `${base}/servers`, { body: wrong })).toBe(400);
    expect(await ask('PUT', `${base}/servers/leaky`, { body: { ...stored.leaky, tags: [7] } })).toBe(400);
    expect(await ask('GET', `${base}/servers/${encodeURIComponent(admin)}`)).toBe(404);
    for (const token of ['wrong', node]) await ask('GET', `${base}/servers`, { token });
    await ask('GET', '/api/v1/mcp/servers', { token: 'wrong' });
    expect(await ask('POST', `${base}/reload`)).toBe(200);

    // A masked record that comes back keeps what is stored.
    const shown = JSON.parse(out[`GET ${base}/servers/leaky as admin`]?.replace(/^\[.*?\]\] /, '') ?? '');
    expect(shown.stdio.args).toEqual([...leaky.stdio.args, '--token', '********', '--api-key=********']);
    expect(await ask('PUT', `${base}/servers/leaky`, { body: shown })).toBe(200);
    const nodes = await fetch(`${sms.http}/api/v1/mcp/servers`, { headers: { authorization: `Bearer ${node}` } });
    const forNodes = (await nodes.json()) as { servers: { server_id: string; stdio: object; http: object }[] };
    for (const { server_id: id, stdio, http } of forNodes.servers) {
      const { stdio: storedStdio = null, http: storedHttp = null } =
        (stored as Record<string, Partial<typeof leaky>>)[id] ?? {};
      expect({ stdio, http }).toMatchObject({ stdio: storedStdio, http: storedHttp });
    }

    const wire = new OriginalClient(sms.grpc, 'wrong');
    for (const request of [{}, { record: { server_id: admin } }]) {
      for (const method of ['ListMcpServers', 'UpsertMcpServer']) {
        out[`gRPC ${method} ${JSON.stringify(request).length}`] = await wire
          .call(method, request)
          .then(JSON.stringify, String);
      }
    }
    const trusted = new OriginalClient(sms.grpc, admin);
    out['gRPC refusal'] = await trusted
      .call('UpsertMcpServer', { record: { server_id: 'x y', stdio: { command: '', env: { A: argument } } } })
      .then(JSON.stringify, String);
    expect(out['gRPC refusal']).toContain('INVALID_ARGUMENT');

    const testEnv = { ...env, XDG_STATE_HOME: data };
    const commands = [
      ...['ls', 'ls --json', 'export', ...Object.keys(stored).map((id) => `get ${id}`)].map(
        (verb) => `servers ${verb}`,
      ),
      ...Object.keys(stored).map((id) => `servers test ${id}`),
      'nodes ls',
    ];
    await Promise.all(
      commands.map(async (command) => {
        out[`spear ${command}`] = await spear(sms, admin, command.split(' '), testEnv);
      }),
    );
    expect(out['spear servers test leaky']).toContain('starting with [redacted]');
    out['spear apply'] = await spear(sms, admin, ['servers', 'apply', directory]);
    out['spear, wrong token'] = await spear(sms, canaries.plant('wrong-token', true), ['servers', 'ls']);
    out['spear, wrong flag'] = await spear(sms, admin, [
      'servers',
      'ls',
      '--token',
      canaries.plant('token-flag', true),
      '--nonsense',
    ]);

    sms.child.kill('SIGUSR2');
    await once(sms.child, 'exit');
    out['the log'] = sms.stderr();
    expect(out['the log']).toContain('spear-sms: internal error, please report it');
    // What a caller writes into the path or the flags is not a secret of the registry, but its token is.
    expect(canaries.foundIn(out)).toEqual([]);
  });

  it('comes to a node that follows it, and not out of that node [secrets.canary]', async () => {
    const { canaries, records, env } = await plantRecords();
    const data = folder();
    const smsArgs = ['--data', join(data, 'registry.db'), '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'];
    const directory = folder();
    for (const [id, record] of Object.entries(records))
      writeFileSync(join(directory, `${id}.json`), JSON.stringify(record));
    const sms = await spawnSms([...smsArgs, '--mcp-registry-dir', directory], { HOME: data, PATH: process.env.PATH });
    canaries.know('admin-token', readFileSync(join(data, 'admin.token'), 'utf8').trim());
    const token = canaries.know('node-token', readFileSync(join(data, 'node.token'), 'utf8').trim());
    const model = new SteeredModel();
    onTestFinished(() => model.stop());
    const { auth_ref: authFile } = (records.authfile as { http: { auth_ref: string } }).http;
    const host = hostConfig(
      canaries,
      await model.start(),
      `[mcp]\nallow_files = ["${authFile.slice('file:'.length)}"]\n[egress]\nallow_addresses = ["loopback"]\n`,
    );
    const password = canaries.plant('argument', true);
    const cli = new Cli(
      [
        fixture('c/files.wasm'),
        ...['--task-config', taskConfig(Object.keys(records)), '--config', host.file, '--sms', sms.grpc],
        ...['--limit', 'timeout_ms=170000', '--audit', join(data, 'audit.jsonl'), '--verbose'],
      ],
      { env: { ...env, ...host.env, SPEAR_SMS_TOKEN: token }, cwd: root },
    ).listen();
    cli.child.stdin.end();
    const playing = await Promise.race([playModel(model, password), cli.finished()]);
    if ('code' in playing) throw new Error(`it ended early: ${playing.stderr}`);
    const { stdout, stderr } = await cli.finished();
    expect(playing.answers.filter((answer) => answer.includes('[redacted]')).length, stderr).toBeGreaterThan(
      calls.length / 2,
    );
    const { headers, body } = await fetch(`${sms.http}/admin/api/mcp/nodes`, {
      headers: { authorization: `Bearer ${readFileSync(join(data, 'admin.token'), 'utf8').trim()}` },
    }).then(async (response) => ({ headers: [...response.headers], body: await response.text() }));
    const found = canaries.foundIn({
      stdout,
      stderr,
      audit: readFileSync(join(data, 'audit.jsonl'), 'utf8'),
      'the model': playing.heard.replaceAll(password, ''),
      'what the node reported': `${JSON.stringify(headers)} ${body}`,
      'the log of the registry': sms.stderr(),
    });
    expect(found).toEqual([]);
  });
});
