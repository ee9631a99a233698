import { startNats } from '../../scripts/engines/nats-cluster.ts';
import { requireBuild } from '../guests/built.ts';
import { type HelloNode, openHelloNode } from '../guests/hello-node.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Topic } from './topic.ts';

/** Submissions under way, over all nodes. */
const LANES = 96;
const NODES = 3;
const ADDED_MS = 25;

/**
 * What runs cost that wait in NATS, beside those of a node with a queue of its own; and whether more nodes do more. One
 * node and three have servers of their own, so that they are measured in turns, and neither hears of the other's runs.
 */
export const topic: Topic = async (effort) => {
  requireBuild();
  const close: (() => Promise<void>)[] = [];
  const opened = async (args: readonly string[] = []) => {
    const node = await openHelloNode(args);
    close.push(() => node.close());
    return node;
  };
  const queue = async () => {
    const nats = await startNats();
    close.push(() => nats.stop());
    return ['--queue', `nats://${nats.members.map(({ address }) => address).join(',')}`];
  };
  try {
    const embedded = await opened();
    const one = await opened(await queue());
    const shared = await queue();
    const many: HelloNode[] = [];
    while (many.length < NODES) many.push(await opened(shared));
    const runs = effort.of(150, 1_500);
    // What is compiled after some thousand runs is what a node that lives for days has.
    const warmUp = effort.of(LANES, 4_000);
    await embedded.run(warmUp, LANES);
    await one.run(warmUp, LANES);
    await together(many, NODES * warmUp);
    const found = { aloneByNats: [], alone: [], many: [], one: [], embedded: [] } as Record<keyof Samples, number[]>;
    for (let round = 0; round < effort.of(2, 7); round++) {
      for (let n = 0; n < effort.of(5, 30); n++) {
        found.alone.push(await embedded.run(1, 1));
        found.aloneByNats.push(await one.run(1, 1));
      }
      found.embedded.push(await embedded.run(runs, LANES));
      found.one.push(await one.run(runs, LANES));
      found.many.push(await together(many, runs));
    }
    return rows(found);
  } finally {
    for (const end of close.reverse()) await end();
  }
};

/** Milliseconds a run. */
interface Samples {
  readonly aloneByNats: readonly number[];
  readonly alone: readonly number[];
  readonly many: readonly number[];
  readonly one: readonly number[];
  readonly embedded: readonly number[];
}

function rows({ aloneByNats, alone, many, one, embedded }: Samples): Row[] {
  const text = { topic: 'cluster', unit: 'ms' } as const;
  const own = 'by a queue of its own';
  return [
    rowFrom(
      { ...text, name: 'one hello run by NATS', yardstickName: own, goal: goal.addedAtMost(ADDED_MS, 'ms') },
      aloneByNats,
      alone,
    ),
    rowFrom(
      { ...text, name: `a run of many on ${NODES} nodes`, yardstickName: 'on one node', goal: goal.ratioAtMost(1) },
      many,
      one,
    ),
    rowFrom({ ...text, name: 'a run of many on one node by NATS', yardstickName: own, goal: null }, one, embedded),
  ];
}

/** Milliseconds a run, of all. */
async function together(nodes: readonly HelloNode[], runs: number): Promise<number> {
  const started = performance.now();
  await Promise.all(nodes.map((node) => node.run(Math.round(runs / nodes.length), LANES / nodes.length)));
  return (performance.now() - started) / runs;
}
