import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { SpearletOptions } from '../../src/node/node.ts';
import type { RunRecord } from '../../src/server/records/run.ts';
import { startTestSms, stopAll, temporaryDirectory } from '../registry/running-sms.ts';
import { useNats } from '../support/engines/use-engine.ts';
import { eventually } from '../support/eventually.ts';
import { writeNodeFolder } from '../torture/node/node-life.ts';
import { startNode } from './started-spearlet.ts';

const cluster = useNats();
const AGENTS = 8;

beforeEach(() => {
  vi.stubEnv('XDG_STATE_HOME', temporaryDirectory());
});
afterEach(async () => {
  await stopAll();
  vi.unstubAllEnvs();
});

/** A node of the cluster; its servers come from its own folder, unless `options` names a registry. */
function start(name: string, options: Partial<SpearletOptions> = {}) {
  const queue = `nats://${cluster()
    .members.map(({ address }) => address)
    .join(',')}`;
  return startNode({ queue, ...options }, (folder) => writeNodeFolder(folder, { node: `name = "${name}"` }));
}

type Node = Awaited<ReturnType<typeof start>>;

const submit = async (node: Node, task: string) => (JSON.parse((await node.submit(task)).text) as RunRecord).id;

async function ended(node: Node, id: string): Promise<RunRecord> {
  await eventually(async () => (await node.run(id)).ended_at_ms !== null, `the run ${id} to end`);
  return node.run(id);
}

it('a node without a snapshot leaves runs with MCP to other nodes, and no attempt is counted [node.ready]', async () => {
  const sms = await startTestSms();
  await sms.sms.close();
  const registry = { directory: undefined, sms: { address: sms.sms.grpc, token: sms.nodeToken } };
  const without = await start('without', { registry });
  const agents = await Promise.all(Array.from({ length: AGENTS }, () => submit(without, 'agent')));
  // Runs that were submitted later have ended there: the node was offered the others, too.
  const hello = await submit(without, 'hello');
  expect(await ended(without, hello)).toMatchObject({ status: 'succeeded', node: 'without', attempts: 1 });
  for (const id of agents) {
    expect(await without.run(id)).toMatchObject({ status: 'queued', attempts: 0, node: null, started_at_ms: null });
  }

  const other = await start('other');
  for (const id of agents) {
    const run = await ended(without, id);
    expect(run).toMatchObject({ status: 'succeeded', node: 'other', attempts: 1 });
    expect(run.degraded ?? []).toEqual([]);
    expect(run.cost).toMatchObject({ tool_calls: 3 });
  }
  const claimed = ({ logged }: Node) =>
    agents.filter((id) => logged.some((line) => line.includes(`ended {"run":"${id}`)));
  expect([claimed(without), claimed(other)]).toEqual([[], agents]);
  expect(without.logged.filter((line) => line.includes('run_again'))).toEqual([]);
});
