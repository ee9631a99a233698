import { startNats } from '../../scripts/engines/nats-cluster.ts';
import { requireBuild } from '../guests/built.ts';
import { type HelloNode, openHelloNode } from '../guests/hello-node.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Topic } from './topic.ts';

/** Submissions under way, over all nodes. */
const LANES = 48;
const NODES = 3;
const ADDED_MS = 25;

/** What runs cost that wait in NATS, beside those of a node with a queue of its own; and whether more nodes do more. */
export const topic: Topic = async (effort) => {
  requireBuild();
  const nats = await startNats();
  const queue = ['--queue', `nats://${nats.members.map(({ address }) => address).join(',')}`];
  const opened = await Promise.all([openHelloNode(), openHelloNode(queue)]);
  const [embedded, one] = opened;
  const runs = effort.of(150, 1_500);
  const found = { aloneByNats: [], alone: [], many: [], one: [], embedded: [] } as Record<keyof Samples, number[]>;
  try {
    await Promise.all(opened.map((node) => node.run(LANES, LANES))); // what is compiled once
    for (let round = 0; round < effort.of(2, 5); round++) {
      for (let n = 0; n < effort.of(5, 30); n++) {
        found.alone.push(await embedded.run(1, 1));
        found.aloneByNats.push(await one.run(1, 1));
      }
      found.embedded.push(await embedded.run(runs, LANES));
      found.one.push(await one.run(runs, LANES));
      // Those that do not run anything would cost it something: they are there for this alone.
      const others = await Promise.all(Array.from({ length: NODES - 1 }, () => openHelloNode(queue)));
      try {
        await together([one, ...others], runs); // as warm as the one
        found.many.push(await together([one, ...others], runs));
      } finally {
        await Promise.all(others.map((node) => node.close()));
      }
    }
    return rows(found);
  } finally {
    await Promise.all(opened.map((node) => node.close()));
    await nats.stop();
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
