import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { startTestSms, stopAll, type TestSms } from '../../registry/running-sms.ts';
import { ledgerRecord, NodeLives, writeNodeFolder } from '../node/node-life.ts';
import { allEnded, effectsIn, runsOf } from '../node/node-runs.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';

const TASK_RUNS = '/v1/namespaces/default/tasks/agent/runs';
const STOPS = '/admin/api/stops';
const QUIET_MS = 20_000;
const SETTLE_MS = 100;

/**
 * Runs of agents on a node while stops are set and lifted at any moment: while a stop is active and confirmed, no tool is
 * called; lifted, every run ends once, without a lost attempt, and no tool is called twice.
 */
export async function stoppedRuns(effort: Effort): Promise<Finding> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-stops-'));
  const failures = new Failures();
  const sms = await startTestSms();
  const registry = ['--sms', sms.sms.grpc, '--sms-token', sms.nodeToken];
  const node = new NodeLives(folder, ['--slots', '8'], ['--task-dir', join(folder, 'tasks.d'), ...registry]);
  const wanted = { runs: effort.of(40, 400), stops: effort.of(8, 150) };
  // A call that a stop interrupts has an unknown outcome: without approvals its run gets that as its answer.
  writeNodeFolder(folder, { turnMs: 30, node: 'approve = "deny"' });
  const trail = join(folder, 'trail');
  let [stopped, parked] = [0, 0];
  try {
    await sms.http('POST', '/admin/api/mcp/servers', { json: ledgerRecord(trail) });
    await node.start();
    const ids: string[] = [];
    const submitting = submitAll(node, wanted.runs, ids);
    for (; stopped < wanted.stops && !effort.isOver(); stopped++) {
      await delay(effort.random.below(300));
      parked += await oneStop(sms, node, trail, effort, failures);
      effort.progress(stopped, wanted.stops);
    }
    await submitting;
    const runs = await allEnded(node);
    if (runs.length !== ids.length) failures.add(`${ids.length} runs were acknowledged, and there are ${runs.length}`);
    for (const { id, status, attempts, exit } of runs) {
      if (status !== 'succeeded') failures.add(`${id} ended as ${status}: ${JSON.stringify(exit)}`);
      if (attempts !== 1) failures.add(`${id} took ${attempts} attempts`);
    }
    const effects = effectsIn(trail);
    const twice = effects.filter((effect, index) => effects.indexOf(effect) !== index);
    for (const effect of twice) failures.add(`a tool was called twice for ${effect}`);
    if (node.crashed > 0) failures.add(`it ended by itself: ${node.log}`);
    return {
      what: 'runs of agents on a node under stops',
      count: runs.length,
      lost: failures.count,
      crashed: node.crashed,
      measured: `${stopped} stops, ${parked} times a run was parked, ${effects.length} of ${runs.length * 3} tool calls were made, none twice`,
      failures: failures.list(),
    };
  } finally {
    await node.stop();
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How many runs it parked. */
async function oneStop(
  sms: TestSms,
  node: NodeLives,
  trail: string,
  effort: Effort,
  failures: Failures,
): Promise<number> {
  const targets = [
    { scope: 'all', name: '' },
    { scope: 'namespace', name: 'default' },
    { scope: 'task', name: 'default/agent' },
  ];
  const target = effort.random.pick(targets);
  const { body } = await sms.http('POST', STOPS, { json: { ...target, reason: 'torture' } });
  const path = `${STOPS}/${body.stop_id}`;
  const end = performance.now() + QUIET_MS;
  while ((await sms.http('GET', path)).body.confirmed !== 1 && performance.now() < end) await delay(20);
  // A call that was sent before may be on its way to the server's file.
  await delay(SETTLE_MS);
  const before = effectsIn(trail).length;
  await delay(effort.random.below(200));
  const calls = effectsIn(trail).length - before;
  if (calls > 0) failures.add(`${calls} calls were made while ${target.scope} was stopped`);
  const runs = await runsOf(node);
  const busy = runs.filter(({ status }) => status === 'running' || status === 'waiting');
  if (busy.length > 0) failures.add(`${busy.length} runs ran while ${target.scope} was stopped: ${busy[0]?.id}`);
  await sms.http('DELETE', path);
  return runs.filter(({ status }) => status === 'parked').length;
}

async function submitAll(node: NodeLives, count: number, ids: string[]): Promise<void> {
  for (let n = 0; n < count; n++) {
    const { status, text } = await node.ask('POST', TASK_RUNS, { body: `run ${n}` });
    if (status !== 202) throw new Error(`a submission was answered with ${status}: ${text}`);
    ids.push((JSON.parse(text) as RunRecord).id);
    await delay(10);
  }
}
