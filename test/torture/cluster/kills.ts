import { setTimeout as delay } from 'node:timers/promises';
import { hasEnded, type RunRecord } from '../../../src/protocol/run.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { ClusterLife, LEASE_MS } from './cluster-life.ts';

const AGENT = '/v1/namespaces/default/tasks/agent/runs';
const RUNS = '/v1/namespaces/default/runs';
const LABELS = ['a', 'b', 'c', 'd', 'e'];
const CALLERS = 4;
const TO_THE_END_MS = 300_000;
const PAGE = 500;

/** Nodes and servers are killed, and nodes are paused for longer than their lease, under runs that call tools. */
export async function clusterKills(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  const wanted = effort.of(40, 2_000);
  const life = await ClusterLife.start(effort.of(2, 3), LABELS);
  const blows = { nodes: 0, servers: 0, pauses: 0 };
  try {
    const acknowledged = new Map<string, string>();
    let isDone = false;
    const submitting = submitAll(life, wanted, acknowledged, effort).finally(() => {
      isDone = true;
    });
    while (!isDone && !effort.isOver()) {
      await delay(effort.random.below(effort.of(800, 3_000)));
      await blow(life, effort, blows);
    }
    if (effort.short && blows.servers === 0) await killServer(life, effort, blows);
    await submitting;
    const runs = await allEnded(life, acknowledged, failures);
    const unknown = check(acknowledged, runs, failures);
    const effects = life.effects();
    const twice = effects.filter((effect, index) => effects.indexOf(effect) !== index);
    for (const effect of twice) failures.add(`a tool was called twice for ${effect}`);
    if (life.crashed > 0) failures.add(`a node ended by itself: ${life.nodes.map(({ log }) => log).join('\n')}`);
    const again = runs.filter(({ attempts }) => attempts > 1).length;
    return {
      what: 'runs of five tool calls on nodes that share NATS, under kills and pauses',
      count: runs.length,
      lost: failures.count,
      crashed: life.crashed,
      measured: `${blows.nodes} nodes and ${blows.servers} servers killed, ${blows.pauses} pauses longer than the lease; ${again} runs were resumed, ${effects.length} of ${runs.length * LABELS.length} tool calls were seen, none twice, at most ${unknown} are unknown`,
      failures: failures.list(),
    };
  } finally {
    await life.end();
  }
}

async function blow(
  life: ClusterLife,
  effort: Effort,
  blows: { nodes: number; servers: number; pauses: number },
): Promise<void> {
  const node = effort.random.pick(life.nodes);
  switch (effort.random.below(3)) {
    case 0:
      blows.nodes++;
      await node.kill();
      await delay(effort.random.below(500));
      await node.start();
      return;
    case 1:
      blows.pauses++;
      node.signal('SIGSTOP');
      await delay(LEASE_MS + 200 + effort.random.below(1_000));
      node.signal('SIGCONT');
      return;
    default:
      await killServer(life, effort, blows);
  }
}

/** One at a time: two of three are a majority. */
async function killServer(life: ClusterLife, effort: Effort, blows: { servers: number }): Promise<void> {
  blows.servers++;
  const server = effort.random.pick(life.servers.members);
  await server.kill();
  await delay(effort.random.below(1_500));
  await server.start();
}

/** Callers that submit until each run is acknowledged, however often they have to ask. */
async function submitAll(
  life: ClusterLife,
  runs: number,
  acknowledged: Map<string, string>,
  effort: Effort,
): Promise<void> {
  let next = 0;
  const caller = async () => {
    while (next < runs && !effort.isOver()) {
      const key = `run-${next++}`;
      for (;;) {
        const answer = await life.ask('POST', AGENT, { body: key, headers: { 'idempotency-key': key } });
        if (answer?.status === 202) {
          acknowledged.set(key, (JSON.parse(answer.text) as RunRecord).id);
          break;
        }
        await delay(50);
      }
      effort.progress(acknowledged.size, runs);
      // Beside the blows, not before them.
      await delay(effort.of(100, 150));
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}

async function allEnded(
  life: ClusterLife,
  acknowledged: ReadonlyMap<string, string>,
  failures: Failures,
): Promise<readonly RunRecord[]> {
  const until = performance.now() + TO_THE_END_MS;
  for (;;) {
    const runs = await listAll(life);
    const left = runs.filter(({ status }) => !hasEnded(status));
    if (left.length === 0 && runs.length >= acknowledged.size) return runs;
    if (performance.now() > until) {
      for (const { id, status, node, attempts } of left)
        failures.add(`${id} is ${status} on ${node}, attempt ${attempts}`);
      return runs;
    }
    await delay(200);
  }
}

async function listAll(life: ClusterLife): Promise<readonly RunRecord[]> {
  const all: RunRecord[] = [];
  for (let cursor = ''; ; ) {
    const answer = await life.ask('GET', `${RUNS}?limit=${PAGE}${cursor}`);
    if (answer === null) return all;
    const page = JSON.parse(answer.text) as { runs: RunRecord[]; cursor: string | null };
    all.push(...page.runs);
    if (page.cursor === null) return all;
    cursor = `&cursor=${page.cursor}`;
  }
}

/** How many calls may be unknown: those that the runs do not have as finished. */
function check(acknowledged: ReadonlyMap<string, string>, runs: readonly RunRecord[], failures: Failures): number {
  const ids = new Set(runs.map(({ id }) => id));
  for (const [key, id] of acknowledged)
    if (!ids.has(id)) failures.add(`the run of ${key} was acknowledged and is lost`);
  for (const { id, status, exit } of runs) {
    if (status !== 'succeeded') failures.add(`${id} ended as ${status}: ${JSON.stringify(exit)}`);
  }
  return runs.reduce((sum, { attempts }) => sum + Math.max(0, attempts - 1), 0);
}
