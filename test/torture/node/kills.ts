import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { NodeLives, writeNodeFolder } from './node-life.ts';
import { allEnded, effectsIn, RUNS, someEnded } from './node-runs.ts';

/** kill -9 of a node at any moment, under runs that call tools: what was acknowledged ends once, what was done is done once. */
export async function kills(effort: Effort): Promise<Finding> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-node-'));
  const failures = new Failures();
  const wanted = { kills: effort.of(5, 50), runs: effort.of(50, 200) };
  const node = new NodeLives(folder, ['--slots', '8']);
  // Long enough that some are under way whenever it is killed.
  writeNodeFolder(folder, { turnMs: 30 });
  let killed = 0;
  try {
    await node.start();
    const submitting = submitAll(node, wanted.runs);
    for (; killed < wanted.kills && !effort.isOver(); killed++) {
      // Now while runs are begun, now when some have ended and others are under way.
      if (effort.random.chance(2)) await someEnded(node, 1 + effort.random.below(8));
      await delay(effort.random.below(800));
      await node.kill();
      // Some do not come to serve at all.
      if (effort.random.chance(4)) {
        node.spawn();
        await delay(effort.random.below(400));
        await node.kill();
      }
      await node.start();
      effort.progress(killed, wanted.kills);
    }
    const acknowledged = await submitting;
    const runs = await allEnded(node);
    check(acknowledged, runs, failures);
    for (const { id } of runs) {
      const result = (await node.ask('GET', `${RUNS}/${id}/result`)).text;
      if (!result.endsWith('all done\n')) failures.add(`the result of ${id} is ${JSON.stringify(result)}`);
    }
    const effects = effectsIn(join(folder, 'trail'));
    const twice = effects.filter((effect, index) => effects.indexOf(effect) !== index);
    for (const effect of twice) failures.add(`a tool was called twice for ${effect}`);
    if (node.crashed > 0) failures.add(`it ended by itself: ${node.log}`);
    const again = runs.filter(({ attempts }) => attempts > 1).length;
    return {
      what: 'runs of agents on a node that is killed at any moment',
      count: runs.length,
      lost: failures.count,
      crashed: node.crashed,
      measured: `${killed} kills, ${again} runs were resumed or begun again, ${effects.length} of ${runs.length * 3} tool calls were done, none twice`,
      failures: failures.list(),
    };
  } finally {
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Two callers that submit until each run is acknowledged, however often they have to ask. */
async function submitAll(node: NodeLives, runs: number): Promise<Map<string, string>> {
  const acknowledged = new Map<string, string>();
  const submit = async (key: string) => {
    for (;;) {
      try {
        const answer = await node.ask('POST', '/v1/namespaces/default/tasks/agent/runs', {
          body: key,
          headers: { 'idempotency-key': key },
        });
        if (answer.status === 202) return acknowledged.set(key, (JSON.parse(answer.text) as RunRecord).id);
      } catch {
        // It was killed, or has not started again.
      }
      await delay(20);
    }
  };
  const caller = async (name: string) => {
    for (let n = 0; n < runs / 2; n++) await submit(`${name}-${n}`);
  };
  await Promise.all([caller('one'), caller('other')]);
  return acknowledged;
}

function check(acknowledged: ReadonlyMap<string, string>, runs: readonly RunRecord[], failures: Failures): void {
  const ids = new Set(runs.map(({ id }) => id));
  for (const [key, id] of acknowledged)
    if (!ids.has(id)) failures.add(`the run of ${key} was acknowledged and is lost`);
  if (ids.size !== acknowledged.size) failures.add(`${acknowledged.size} were acknowledged, and there are ${ids.size}`);
  for (const { id, status, exit } of runs) {
    if (status !== 'succeeded') failures.add(`${id} ended as ${status}: ${JSON.stringify(exit)}`);
  }
}
