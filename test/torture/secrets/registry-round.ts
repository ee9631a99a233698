import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { leakyRecords, plantVariables } from '../../e2e/canary-places.ts';
import type { Random } from '../random.ts';
import { Command } from './command.ts';
import type { LeakyServer } from './leaky-server.ts';
import type { Vault } from './vault.ts';

const pem = (text: string) => `-----BEGIN PRIVATE KEY-----\n${text}\n-----END PRIVATE KEY-----\n`;
const base = '/admin/api/mcp';

/** A registry that is given secrets, asked in every way, and brought down by one of them in an error. */
export async function registryRound(
  vault: Vault,
  leaky: LeakyServer,
  random: Random,
  isShort: boolean,
): Promise<number> {
  const { plant } = vault;
  const variables = plantVariables(plant);
  const authFile = vault.file('token', `${plant('auth-file', true)}\n`);
  const records = leakyRecords(plant, { url: leaky.url, authFile });
  const directory = vault.directory();
  for (const [id, record] of Object.entries(records))
    writeFileSync(join(directory, `${id}.json`), JSON.stringify(record));
  const broken = plant('broken-file', true);
  writeFileSync(
    join(directory, 'broken.toml'),
    `server_id = "broken"\n[stdio]\ncommand = 7\nenv = { A = "${broken}" }\n`,
  );
  const data = vault.directory();
  const auditKey = plant('registry-audit-key', true);
  const config = vault.file(
    'sms.toml',
    `[mcp]\nallow_server_test = true\n[egress]\nallow_addresses = ["loopback"]\n[audit]\nkey = "file:${vault.file('audit.key', auditKey)}"\n`,
  );
  const crash = vault.file(
    'crash.cjs',
    `process.on('SIGUSR2', () => { throw new Error(require('fs').readFileSync(process.env.LEAK, 'utf8')); });`,
  );
  const flags = ['--data', join(data, 'registry.db'), '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'];
  const env = { ...variables, HOME: data, LEAK: join(data, 'admin.token') };
  const sms = new Command('spear-sms', [...flags, '--mcp-registry-dir', directory, '--config', config], env, [
    '--require',
    crash,
  ]);
  const ready = await sms.says(/^\{.*"grpc".*\}$/m);
  if (ready === null) throw new Error(`spear-sms did not start: ${sms.stderr}`);
  const { http } = JSON.parse(ready) as { http: string };
  const admin = vault.know('admin-token', readFileSync(join(data, 'admin.token'), 'utf8').trim());
  const node = vault.know('node-token', readFileSync(join(data, 'node.token'), 'utf8').trim());

  let asked = 0;
  const ask = async (method: string, path: string, body?: object, token = admin) => {
    const response = await fetch(`${http}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    vault.out[`${method} ${path} ${++asked}`] =
      `${response.status} ${JSON.stringify([...response.headers])} ${await response.text()}`;
  };
  for (const path of [`${base}/servers`, `${base}/nodes`, '/metrics', '/healthz', '/readyz']) await ask('GET', path);
  const ids = Object.keys(records);
  const some = isShort ? [random.pick(ids), random.pick(ids)] : ids;
  for (const id of some) {
    await ask('GET', `${base}/servers/${id}`);
    await ask('POST', `${base}/servers/${id}/test`);
    await ask('PUT', `${base}/servers/${id}`, { ...records[id], tags: [7], transport: plant(`wrong-${id}`, true) });
    await ask('PUT', `${base}/servers/${id}`, { ...records[id], display_name: 'another' });
  }
  await ask('POST', `${base}/servers`, { ...records.leaky, server_id: `not valid ${admin}` });
  await ask('GET', `${base}/servers/${encodeURIComponent(plant('in-the-path', true))}`, undefined, 'wrong');
  await ask('GET', `${base}/servers`, undefined, plant('wrong-token', true));
  await ask('GET', `${base}/servers`, undefined, node);
  await ask('POST', `${base}/reload`);

  const spear = async (args: string[], token = admin) => {
    const command = new Command('spear', args, { ...variables, HOME: data, SPEAR_SMS: http, SPEAR_SMS_TOKEN: token });
    await command.finished();
    vault.out[`spear ${args.slice(0, 3).join(' ')} ${++asked}`] = command.stdout + command.stderr;
  };
  const commands = [
    ['servers', 'ls'],
    ['servers', 'export'],
    ['servers', 'get', random.pick(ids)],
    ['servers', 'test', random.pick(ids)],
    ['servers', 'apply', directory],
    ['nodes', 'ls'],
    ['doctor', '--config', config],
  ];
  await Promise.all((isShort ? [random.pick(commands), random.pick(commands)] : commands).map((args) => spear(args)));
  await spear(['servers', 'ls'], plant('wrong-token-of-spear', true));
  await spear(['servers', 'ls', '--token', plant('token-flag', true), '--nonsense']);

  const [cert, key] = ['cert', 'key'].map((name) => vault.file(`${name}.pem`, pem(plant(`tls-${name}`, true))));
  const tls = vault.file('tls.toml', `[tls]\ncert = "${cert}"\nkey = "${key}"\n`);
  const refused = new Command('spear-sms', ['--data', join(data, 'other.db'), '--config', tls], env);
  await refused.finished();
  vault.out['a registry with a wrong key'] = refused.stdout + refused.stderr;

  sms.child.kill(random.pick(['SIGUSR2', 'SIGTERM']));
  await sms.finished();
  vault.out['the registry’s own words'] = sms.stdout + sms.stderr;
  // The store and the token files are where secrets are meant to be; everything else beside them is not.
  vault.keepFiles('data', data, (path) => /(registry|other)\.db|\.token$/.test(path));
  return asked;
}
