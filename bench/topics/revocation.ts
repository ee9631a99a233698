import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startEtcd } from '../../scripts/engines/etcd-cluster.ts';
import { sampleRecord } from '../../test/server/records/server-samples.ts';
import { requireBuild } from '../guests/built.ts';
import { openCallingNode } from '../guests/calling-node.ts';
import { openSms, type SmsProcess } from '../guests/sms-process.ts';
import { goal, type Row, rowFrom, rowWithRatios } from '../measure/row.ts';
import { median } from '../measure/statistics.ts';
import type { Effort, Topic } from './topic.ts';

const nodesProgram = fileURLToPath(new URL('../guests/refusing-nodes.ts', import.meta.url));
const SERVER = 'fs';
const TOOL = 'write';
const OTHERS = 200;
const PROCESSES = 4;
const P99_MS = 250;
/** What is measured is the way of a change, not a queue. */
const PAUSE_MS = 50;
const SETTLE_MS = 1_000;
const now = () => performance.timeOrigin + performance.now();

/** From the moment at which somebody takes a tool away until it is refused on each node, and calls of it have ended. */
export const topic: Topic = async (effort) => {
  requireBuild();
  const rows: Row[] = [];
  const sqlite = await openSms(OTHERS);
  try {
    rows.push(await refusals('SQLite', [sqlite], effort), await callInFlight(sqlite, effort));
  } finally {
    await sqlite.close();
  }
  const etcd = await startEtcd();
  const store = ['--store', `etcd://${etcd.members.map(({ address }) => address).join(',')}`];
  const registries: SmsProcess[] = [];
  try {
    // What is written at the first is heard at the other one too.
    for (let n = 0; n < 2; n++) registries.push(await openSms(0, store));
    for (let n = 0; n < OTHERS; n++) await registries[0]?.upsert(sampleRecord(`other-${n}`));
    rows.push(await refusals('etcd, two registries', registries as [SmsProcess, SmsProcess], effort));
  } finally {
    await Promise.all(registries.map((registry) => registry.close()));
    await etcd.stop();
  }
  return rows;
};

async function refusals(on: string, registries: readonly [SmsProcess, ...SmsProcess[]], effort: Effort): Promise<Row> {
  const [written] = registries;
  const change = (allowed_tools: readonly string[]) => written.upsert(sampleRecord(SERVER, { allowed_tools }));
  await change(['*']);
  const each = effort.of(5, 25);
  const nodes = Array.from({ length: PROCESSES }, (_, at) => {
    const { grpc, nodeToken } = registries[at % registries.length] as SmsProcess;
    return fork(nodesProgram, [grpc, nodeToken, SERVER, TOOL, String(each)]);
  });
  try {
    await Promise.all(nodes.map((node) => once(node, 'message')));
    const writes: number[] = [];
    const removals = new Map<number, number>();
    for (let round = 0; round < effort.of(10, 50); round++) {
      const atMs = now();
      removals.set(await change(['read']), atMs);
      writes.push(now() - atMs);
      await pause(PAUSE_MS);
      await change(['*']);
      await pause(PAUSE_MS);
    }
    await pause(SETTLE_MS);
    const refused = (await Promise.all(nodes.map(collect))).flat();
    const rounds = [...removals].map(([revision, from]) =>
      refused.flatMap(([at, atMs]) => (at === revision ? [atMs - from] : [])),
    );
    const short = rounds.filter(({ length }) => length !== PROCESSES * each);
    if (short.length > 0) throw new Error(`${short.length} removals were not seen by every node on their own`);
    const text = {
      topic: 'revocation',
      name: `a removed tool is refused on ${PROCESSES * each} nodes, ${on}`,
      unit: 'ms',
      yardstickName: 'the write alone',
      goal: goal.p99AtMost(P99_MS, 'ms'),
      cause:
        'all nodes are in four processes and receive the change at the same time; see the row of the registry topic',
    } as const;
    const ratios = rounds.map((delays, at) => median(delays) / (writes[at] as number));
    return rowWithRatios(text, { ours: rounds.flat(), yardstick: writes, ratios });
  } finally {
    for (const node of nodes) node.kill('SIGKILL');
  }
}

/** Of a real server, over a real node; it is over when whoever waits for the run has its result. */
async function callInFlight(sms: SmsProcess, effort: Effort): Promise<Row> {
  const node = await openCallingNode(sms);
  try {
    const [ours, yardstick]: [number[], number[]] = [[], []];
    for (let round = 0; round < effort.of(3, 15); round++) {
      const { ended } = await node.call();
      const atMs = now();
      await node.narrow();
      yardstick.push(now() - atMs);
      const result = await ended;
      ours.push(now() - atMs);
      if (!result.includes('mcp_policy_denied')) throw new Error(`the call ended with ${result}`);
    }
    const name = 'a run ends whose call was in flight, on a node';
    return rowFrom(
      { topic: 'revocation', name, unit: 'ms', yardstickName: 'the write alone', goal: goal.p99AtMost(P99_MS, 'ms') },
      ours,
      yardstick,
    );
  } finally {
    await node.close();
  }
}

type Refused = readonly (readonly [revision: number, atMs: number])[];

async function collect(node: ChildProcess): Promise<Refused> {
  const answer = once(node, 'message') as Promise<[Refused]>;
  node.send('report');
  return (await answer)[0];
}
