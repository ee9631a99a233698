import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { NodeLives, writeNodeFolder } from './node-life.ts';

const HELLO = '/v1/namespaces/default/tasks/hello/runs';
const LANES = 32;
const MAX_GROWTH_MIB = 150;
const MIB = 1024;

/** What a process holds. */
interface Held {
  readonly rssMib: number;
  readonly threads: number;
  readonly fds: number;
}

/** Thousands of short runs in one process: nothing of them stays but their results and journals. */
export async function turnover(effort: Effort): Promise<Finding> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-turnover-'));
  const failures = new Failures();
  const wanted = effort.of(400, 50_000);
  const node = new NodeLives(folder, ['--slots', '64']);
  writeNodeFolder(folder, { node: 'max_queued = 100000' });
  try {
    await node.start();
    // A first part warms up what is kept on purpose: compiled code, threads, caches.
    await submit(node, Math.ceil(wanted / 4), effort);
    const before = await held(node);
    const began = performance.now();
    const rest = Math.floor((wanted * 3) / 4);
    await submit(node, rest, effort);
    const seconds = (performance.now() - began) / 1000;
    const after = await held(node);
    if (after.rssMib - before.rssMib > MAX_GROWTH_MIB) {
      failures.add(`memory grew from ${before.rssMib} to ${after.rssMib} MiB`);
    }
    if (after.threads > before.threads) failures.add(`threads grew from ${before.threads} to ${after.threads}`);
    if (after.fds > before.fds + 4) failures.add(`descriptors grew from ${before.fds} to ${after.fds}`);
    const metrics = (await node.ask('GET', '/metrics')).text;
    const good = Number(/spearlet_runs\{status="succeeded"\} (\d+)/.exec(metrics)?.[1]);
    if (good !== Math.ceil(wanted / 4) + rest) failures.add(`${good} runs succeeded`);
    return {
      what: 'short runs in one process, one after the other',
      count: good,
      lost: failures.count,
      crashed: node.crashed,
      measured: `${Math.round(rest / seconds)} runs a second; ${before.rssMib} → ${after.rssMib} MiB, ${before.threads} → ${after.threads} threads, ${before.fds} → ${after.fds} descriptors`,
      failures: failures.list(),
    };
  } finally {
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function submit(node: NodeLives, runs: number, effort: Effort): Promise<void> {
  let begun = 0;
  const lane = async () => {
    while (begun++ < runs && !effort.isOver()) {
      const { status } = await node.ask('POST', HELLO, { body: '' });
      if (status === 429) await delay(50);
      else if (status !== 202) throw new Error(`the node answered ${status}`);
      effort.progress(begun, runs);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/** When nothing runs any more. */
async function held(node: NodeLives): Promise<Held> {
  for (;;) {
    const metrics = (await node.ask('GET', '/metrics')).text;
    const waiting = Number(/spearlet_queue_depth (\d+)/.exec(metrics)?.[1]);
    const used = Number(/spearlet_slots\{state="used"\} (\d+)/.exec(metrics)?.[1]);
    if (waiting + used === 0) break;
    await delay(50);
  }
  const status = readFileSync(`/proc/${node.pid}/status`, 'utf8');
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  return {
    rssMib: Math.round(field('VmRSS') / MIB),
    threads: field('Threads'),
    fds: readdirSync(`/proc/${node.pid}/fd`).filter((fd) => !isSocket(`/proc/${node.pid}/fd/${fd}`)).length,
  };
}

/** Connections come and go with whoever asks. */
function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith('socket:');
  } catch {
    return true; // closed meanwhile
  }
}
