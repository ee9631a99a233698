import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { runSpear } from '../cli/spear/run-spear.ts';
import { stopAll } from '../registry/running-sms.ts';
import { type SmsProcess, spawnSms } from '../registry/sms-process.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

// The built registry and node as processes, driven by the built spear.

describe('a registry', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spear-smoke-sms-'));
  let sms: SmsProcess;
  const spear = (...args: string[]) =>
    runSpear(args, { SPEAR_SMS: `unix:${join(folder, 'sockets', 'http.sock')}`, HOME: folder });

  beforeAll(async () => {
    const listen = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', join(folder, 'registry.db')];
    sms = await spawnSms(listen, { HOME: folder, PATH: process.env.PATH });
  });
  afterAll(async () => {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  });

  it('takes servers from files and lists them', async () => {
    writeFileSync(
      join(folder, 'a.toml'),
      'server_id = "a"\ntransport = "stdio"\nallowed_tools = ["*"]\n[stdio]\ncommand = "x"\n',
    );
    expect((await spear('servers', 'apply', join(folder, 'a.toml'))).code).toBe(0);
    const { stdout } = await spear('servers', 'ls', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ servers: [{ server_id: 'a' }] });
  });

  it('makes and revokes tokens', async () => {
    expect((await spear('tokens', 'create', 'ann', '--role', 'viewer', '-o', join(folder, 'ann.token'))).code).toBe(0);
    expect((await spear('tokens', 'revoke', 'ann')).code).toBe(0);
  });

  it('lists approvals and nodes, of which there are none yet', async () => {
    expect((await spear('approvals', 'ls')).code).toBe(0);
    expect((await spear('nodes', 'ls')).code).toBe(0);
  });

  it('serves its console, its probes and its metrics, and nothing without a token', async () => {
    expect((await fetch(`${sms.http}/readyz`)).status).toBe(200);
    const page = await fetch(`${sms.http}/console/`);
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('<title>')]);
    expect((await fetch(`${sms.http}/admin/api/mcp/servers`)).status).toBe(401);
  });

  it('stops on SIGTERM with 0', async () => {
    expect(await sms.end('SIGTERM')).toBe(0);
  });
});

describe('a node', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spear-smoke-node-'));
  const node = new NodeLives(folder);
  const runs = '/v1/namespaces/default/runs';

  beforeAll(async () => {
    writeNodeFolder(folder);
    await node.start();
  });
  afterAll(async () => {
    await node.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  afterEach(() => expect(node.crashed).toBe(0));

  it('runs an agent with tool calls over HTTP to its result', async () => {
    const submitted = await node.ask('POST', '/v1/namespaces/default/tasks/agent/runs?wait=30', { body: 'go' });
    expect([200, 202]).toContain(submitted.status);
    const { id } = JSON.parse(submitted.text) as { id: string };
    const events = await node.ask('GET', `${runs}/${id}/events`);
    expect(events.text).toContain('"succeeded"');
    expect(JSON.parse((await node.ask('GET', `${runs}/${id}`)).text)).toMatchObject({ status: 'succeeded' });
  });

  it('runs a task for spear run and lists it', async () => {
    const env = { SPEAR_NODE: node.url, SPEAR_NODE_TOKEN: node.token(), HOME: folder };
    expect(await runSpear(['run', 'hello'], env)).toMatchObject({ code: 0 });
    expect((await runSpear(['runs', 'ls', '--json'], env)).stdout).toContain('succeeded');
  });

  it('refuses a caller without a token', async () => {
    expect((await node.ask('GET', runs, { token: 'wrong' })).status).toBe(401);
  });

  it('drains on SIGTERM and exits with 0', async () => {
    expect(await node.stop()).toBe(0);
  });
});
