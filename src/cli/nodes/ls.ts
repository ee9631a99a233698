import { spearExitCodes } from '../exit-codes.ts';
import { noArguments, type SpearCommand } from '../spear/command.ts';
import { age, table } from '../table.ts';

interface ShownNode {
  readonly node_id: string;
  readonly age_ms: number;
  readonly registry_state: string;
  readonly snapshot_revision: number;
  readonly servers: readonly { readonly health: string }[];
}

export const listNodes: SpearCommand = async ({ flags, client, print }) => {
  noArguments(flags);
  const { value } = await client.request('GET', '/admin/api/mcp/nodes');
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    const { nodes } = value as unknown as { nodes: readonly ShownNode[] };
    const count = (node: ShownNode, health: string) => node.servers.filter((server) => server.health === health).length;
    const rows = nodes.map((node) => [
      node.node_id,
      node.registry_state,
      String(node.snapshot_revision),
      age(node.age_ms),
      String(count(node, 'connected')),
      String(count(node, 'degraded')),
      String(count(node, 'down')),
    ]);
    print(table(['NODE', 'REGISTRY', 'REVISION', 'AGE', 'CONNECTED', 'DEGRADED', 'DOWN'], rows));
  }
  return spearExitCodes.ok;
};
