import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@nats-io/transport-node';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { Blows } from './blows.ts';
import { ClusterLife, type Effect } from './cluster-life.ts';
import { ResultStore, readJournalStreams } from './journal-streams.ts';
import { Tally } from './verdict.ts';

const AGENT = '/v1/namespaces/default/tasks/agent/runs';
const LABELS = ['a', 'b', 'c', 'd', 'e'];
const CALLERS = 8;
/** So many have not ended when the last blow falls: what is left has nothing but the end before it. */
const LEFT_ALONE = 1 / 20;
const LOOK_MS = 100;
/** A run that was acknowledged, after the last blow. */
const TO_THE_END_MS = 45_000;

/**
 * Nodes, their queue, their registries and the connections between them are struck under runs that call tools. Then the
 * result store, the journals as they lie on the servers, and what the tools saw are held against each other.
 */
export async function clusterKills(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  const wanted = effort.of(40, 2_000);
  const life = await ClusterLife.start(effort.of(2, 3), LABELS, failures);
  // Directly, not through what is cut.
  const nc = await connect({ servers: life.nats.members.map(({ address }) => address), maxReconnectAttempts: -1 });
  const store = new ResultStore(nc);
  const blows = new Blows(life);
  try {
    await store.follow();
    const began = performance.now();
    const acknowledged = new Set<string>();
    const submitting = submitAll(life, wanted, acknowledged, effort);
    await blows.rain(effort.random, () => {
      effort.progress(store.ended, wanted);
      return effort.short || store.ended >= wanted * (1 - LEFT_ALONE) || effort.isOver();
    });
    await submitting;
    await allEnded(store, acknowledged);
    const seconds = (performance.now() - began) / 1_000;
    const tally = await judge(await readJournalStreams(nc), life.effects(), { store, acknowledged, failures });
    if (life.crashed > 0) failures.add(`a process ended by itself: ${life.nodes.map(({ log }) => log).join('\n')}`);
    const calls = acknowledged.size * LABELS.length;
    return {
      what: 'runs of five tool calls on nodes that share NATS and follow registries on etcd',
      count: acknowledged.size,
      lost: failures.count,
      crashed: life.crashed,
      measured: `${seconds.toFixed(0)} s; ${blows.told}; ${tally.resumed} runs were resumed, ${tally.takenOver} times from a node that had not given them back; ${tally.seen} of ${calls} tool calls were seen, none twice; ${tally.unknown} are unknown in the journals, of which ${tally.unknownSeen} were made; ${tally.messages} messages of journals, none of a node that had been replaced`,
      failures: failures.list(),
    };
  } finally {
    store.close();
    await nc.close();
    await life.end();
  }
}

/** Callers that submit until each run is acknowledged, however often they have to ask. */
async function submitAll(life: ClusterLife, runs: number, acknowledged: Set<string>, effort: Effort): Promise<void> {
  let next = 0;
  const caller = async () => {
    while (next < runs && !effort.isOver()) {
      const key = `run-${next++}`;
      for (;;) {
        const answer = await life.ask('POST', AGENT, { body: key, headers: { 'idempotency-key': key } });
        if (answer?.status === 202) {
          acknowledged.add((JSON.parse(answer.text) as RunRecord).id);
          break;
        }
        await delay(LOOK_MS);
      }
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}

/** Or the time is up: what has not ended then is found. */
async function allEnded(store: ResultStore, acknowledged: ReadonlySet<string>): Promise<void> {
  const until = performance.now() + TO_THE_END_MS;
  const isLeft = (id: string) => store.ends(id) === 0;
  while ([...acknowledged].some(isLeft) && performance.now() < until) await delay(LOOK_MS);
}

async function judge(
  journals: Awaited<ReturnType<typeof readJournalStreams>>,
  seen: readonly Effect[],
  {
    store,
    acknowledged,
    failures,
  }: { readonly store: ResultStore; readonly acknowledged: ReadonlySet<string>; readonly failures: Failures },
): Promise<Tally> {
  const effects = Map.groupBy(seen, ({ run }) => run);
  const tally = new Tally();
  for (const id of acknowledged) {
    const known = { id, stored: await store.read(id), ends: store.ends(id), journal: journals.get(id) ?? [] };
    tally.add({ ...known, effects: effects.get(id) ?? [], calls: LABELS.length }, failures);
  }
  for (const run of effects.keys()) if (!acknowledged.has(run)) failures.add(`nobody was told of the run ${run}`);
  return tally;
}
