import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NodeLives, writeNodeFolder } from '../node/node-life.ts';
import { connectTo } from '../registry/sms-client.ts';
import { SmsLives } from '../registry/sms-life.ts';
import type { Failures } from '../topic.ts';
import type { Target } from './ground.ts';
import type { Probed } from './probe.ts';

const RUNS = '/v1/namespaces/default/runs';
const echo = fileURLToPath(new URL('../../../fixtures/c/echo.wasm', import.meta.url));

export interface FloodedNode {
  readonly node: NodeLives;
  /** A short request of another caller than the one that floods. */
  readonly probed: Probed;
  /** For a flood from that address. */
  target(from: string): Target;
  close(): Promise<void>;
}

/** A node whose callers are those of a registry, with a run that waits for a stream client. */
export async function startFloodedNode(failures: Failures): Promise<FloodedNode> {
  const directory = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  const sms = new SmsLives({ directory, failures });
  await sms.start();
  const fileToken = (name: string) => readFileSync(join(directory, `${name}.token`), 'utf8').trim();
  const client = connectTo(sms.addresses, fileToken('admin'));
  const create = async (name: string, role: string) => {
    const wish = { name, roles: [role], namespace: 'default' };
    const { text } = await client.http('POST', '/admin/api/tokens', wish);
    return (JSON.parse(text) as { token: string }).token;
  };
  const [flooding, probing] = [await create('flooding', 'submitter'), await create('probing', 'viewer')];
  client.close();
  const folder = join(directory, 'node');
  writeNodeFolder(folder);
  const tasks = join(folder, 'tasks.d');
  writeFileSync(join(tasks, 'echo.toml'), `name = "echo"\nwasm = ${JSON.stringify(echo)}\n`);
  const registry = ['--sms', `http://${sms.addresses.grpc}`, '--sms-token', fileToken('node')];
  const node = new NodeLives(folder, [], ['--task-dir', tasks, ...registry]);
  await node.start();
  const submit = await node.ask('POST', '/v1/namespaces/default/tasks/echo/runs', { body: '', token: flooding });
  const { id } = JSON.parse(submit.text) as { id: string };
  return {
    node,
    probed: {
      url: `${node.url}${RUNS}?limit=1`,
      socketPath: null,
      headers: { authorization: `Bearer ${probing}` },
    },
    target: (from) => ({
      ...{ grpcPort: 0, httpPort: Number(new URL(node.url).port), from, nodeToken: '' },
      caller: { token: flooding, run: `${RUNS}/${id}` },
    }),
    async close() {
      await node.kill();
      await sms.kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
