import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { hasEnded, type RunRecord } from '../../../src/server/records/run.ts';
import { openSmallDisk } from '../registry/small-disk.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { NodeLives, writeNodeFolder } from './node-life.ts';

const HELLO = '/v1/namespaces/default/tasks/hello/runs';
const RUNS = '/v1/namespaces/default/runs';
const TO_THE_END_MS = 180_000;
const LANES = 8;
/** Descriptors that are left: clients are still answered, and some runs can start. */
const LEFT = 12;
const LEFT_BYTES = 256 * 1024;
/** Inputs and journals of all runs of a full topic are retained: about 30 KiB each. */
const DISK_BYTES = 512 * 1024 * 1024;

/** A node without file descriptors, or on a full disk, again and again: no acknowledged run is dead, failed or counted. */
export async function exhausted(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  const rounds = effort.of(2, 20);
  const perRound = effort.of(40, 200);
  const disk = openSmallDisk(DISK_BYTES);
  const folder = disk.directory;
  const node = new NodeLives(folder, ['--slots', '64']);
  writeNodeFolder(folder, { node: 'max_queued = 100000' });
  const acknowledged = new Set<string>();
  let notReady = 0;
  try {
    await node.start();
    for (let round = 0; round < rounds && !effort.isOver(); round++) {
      const isDisk = round % 2 === 1;
      if (isDisk) disk.fill(node, LEFT_BYTES);
      else limitDescriptors(node, readdirSync(`/proc/${node.pid}/fd`).length + LEFT);
      const submitting = submitAll(node, round, perRound, acknowledged);
      // Until the node says that it lacks something, or everything was accepted in spite of it.
      let problem = '';
      const isDone = submitting.then(() => true);
      while (problem === '' && !(await Promise.race([isDone, delay(50, false)]))) problem = await problemOf(node);
      if (problem !== '') notReady++;
      if (isDisk) disk.empty(node);
      else limitDescriptors(node, null);
      await submitting;
      effort.progress(round, rounds);
    }
    for (const id of acknowledged) {
      const run = await ended(node, id);
      if (run.status !== 'succeeded') failures.add(`${id} ended as ${run.status}: ${JSON.stringify(run.exit)}`);
      if (run.attempts > 1) failures.add(`${id} took ${run.attempts} attempts`);
    }
    const ready = await node.ask('GET', '/readyz');
    if (ready.status !== 200) failures.add(`the node is not ready at the end: ${ready.text}`);
    if (node.crashed > 0) failures.add(`it ended by itself: ${node.log}`);
    return {
      what: 'runs on a node without file descriptors or disk space',
      count: acknowledged.size,
      lost: failures.count,
      crashed: node.crashed,
      measured: `${rounds} rounds, not ready in ${notReady}; disk: ${disk.kind}; no attempt counted`,
      failures: failures.list(),
    };
  } finally {
    await node.stop();
    disk.close();
  }
}

/** Null: as many as the system allows. */
function limitDescriptors(node: NodeLives, soft: number | null): void {
  const [, hard = ''] = execFileSync('prlimit', [
    '--pid',
    String(node.pid),
    '--nofile',
    '--output=SOFT,HARD',
    '--noheadings',
  ])
    .toString()
    .trim()
    .split(/\s+/);
  execFileSync('prlimit', ['--pid', String(node.pid), `--nofile=${soft ?? hard}:${hard}`]);
}

/** Empty: the node is ready, or cannot be asked for now. */
async function problemOf(node: NodeLives): Promise<string> {
  const answer = await node.ask('GET', '/readyz').catch(() => null);
  return answer?.status === 503 ? answer.text : '';
}

/** Submits each run until it is acknowledged: the same key is the same run. */
async function submitAll(node: NodeLives, round: number, runs: number, acknowledged: Set<string>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < runs) {
      const headers = { 'idempotency-key': `${round}-${next++}` };
      for (;;) {
        const answer = await node.ask('POST', HELLO, { body: 'x'.repeat(10_000), headers }).catch(() => null);
        if (answer?.status === 202) {
          acknowledged.add((JSON.parse(answer.text) as RunRecord).id);
          break;
        }
        await delay(50);
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

async function ended(node: NodeLives, id: string): Promise<RunRecord> {
  const until = performance.now() + TO_THE_END_MS;
  for (;;) {
    const run = JSON.parse((await node.ask('GET', `${RUNS}/${id}`)).text) as RunRecord;
    if (hasEnded(run.status)) return run;
    if (performance.now() > until) throw new Error(`${id} is ${run.status}: ${run.status_reason}; ${node.log}`);
    await delay(50);
  }
}
