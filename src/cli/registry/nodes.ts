import { reportedStates } from '../../registry-client/node-report.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { age, table } from '../formatting.ts';
import type { SpearCommand } from '../spear/command.ts';

interface ShownProcess {
  readonly machine: string;
  readonly age_ms: number;
  readonly registry_state: string;
  readonly snapshot_revision: number;
  readonly servers: readonly { readonly server_id: string; readonly health: string }[];
}

const head = ['NODE', 'PROCESSES', 'REGISTRY', 'REVISION', 'AGE', 'CONNECTED', 'DEGRADED', 'DOWN'];

/** One row per machine; `--json` has every process. */
export const listNodes: SpearCommand = async ({ flags, client, print, say }) => {
  const { value } = await client.request('GET', '/admin/api/mcp/nodes');
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else {
    const { nodes } = value as unknown as { nodes: readonly ShownProcess[] };
    if (nodes.length === 0) say('no nodes have reported');
    const machines = Map.groupBy(nodes, ({ machine }) => machine);
    print(
      table(
        head,
        [...machines].map(([machine, processes]) => [machine, ...summary(processes)]),
      ),
    );
  }
  return spearExitCodes.ok;
};

/** The worst report of the processes: the state furthest from `ready`, the lowest revision; and the newest report's age. */
function summary(processes: readonly ShownProcess[]): string[] {
  const states = [...severity].filter((state) => processes.some(({ registry_state }) => registry_state === state));
  const servers = (health: string) =>
    new Set(
      processes
        .flatMap((process) => process.servers.filter((server) => server.health === health))
        .map((server) => server.server_id),
    ).size;
  return [
    String(processes.length),
    states.at(-1) ?? '',
    String(Math.min(...processes.map(({ snapshot_revision }) => snapshot_revision))),
    age(Math.min(...processes.map(({ age_ms }) => age_ms))),
    ...['connected', 'degraded', 'down'].map((health) => String(servers(health))),
  ];
}

/** From good to bad: a starting process is no problem. */
const severity = ['ready', 'starting', ...reportedStates.filter((state) => state !== 'ready' && state !== 'starting')];
