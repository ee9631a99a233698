import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { NodeLives, writeNodeFolder } from './node-life.ts';

const HELLO = '/v1/namespaces/default/tasks/hello/runs';
const LANES = 32;
/**
 * Live objects are compared, not the resident memory: V8 leaves tens of MiB of garbage until a collection is worth it, and
 * grows its young generation to about 50 MiB under load.
 */
const MAX_HEAP_GROWTH = 1.05;
/** Of a short run, whose caches are not full when the first part ends. */
const FIRST_GROWTH_MIB = 3;
const KIB_PER_MIB = 1024;
const PROBE = fileURLToPath(new URL('heap-probe.ts', import.meta.url));

/** What a process holds. */
interface Held {
  /** Live objects on the heap of the host thread. */
  readonly heapMib: number;
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
  const heapFile = join(folder, 'heap');
  node.launcher = ['env', `NODE_OPTIONS=--import=${PROBE}`, `HEAP_FILE=${heapFile}`];
  writeNodeFolder(folder, { node: 'max_queued = 100000' });
  try {
    await node.start();
    // A first part warms up what is kept on purpose: compiled code, threads, caches.
    await submit(node, Math.ceil(wanted / 4), effort);
    const before = await held(node, heapFile);
    const began = performance.now();
    const rest = Math.floor((wanted * 3) / 4);
    await submit(node, rest, effort);
    const seconds = (performance.now() - began) / 1000;
    const after = await held(node, heapFile);
    if (after.heapMib > before.heapMib * MAX_HEAP_GROWTH + effort.of(FIRST_GROWTH_MIB, 0)) {
      failures.add(`live objects grew from ${before.heapMib} to ${after.heapMib} MiB`);
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
      measured: `${Math.round(rest / seconds)} runs a second; ${before.heapMib} → ${after.heapMib} MiB of live objects, ${before.rssMib} → ${after.rssMib} MiB resident, ${before.threads} → ${after.threads} threads, ${before.fds} → ${after.fds} descriptors`,
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
async function held(node: NodeLives, heapFile: string): Promise<Held> {
  for (;;) {
    const metrics = (await node.ask('GET', '/metrics')).text;
    const waiting = Number(/spearlet_queue_depth (\d+)/.exec(metrics)?.[1]);
    const used = Number(/spearlet_slots\{state="used"\} (\d+)/.exec(metrics)?.[1]);
    if (waiting + used === 0) break;
    await delay(50);
  }
  rmSync(heapFile, { force: true });
  node.signal('SIGUSR2');
  while (!existsSync(heapFile)) await delay(20);
  const status = readFileSync(`/proc/${node.pid}/status`, 'utf8');
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  return {
    heapMib: Math.round((Number(readFileSync(heapFile, 'utf8')) / KIB_PER_MIB ** 2) * 10) / 10,
    rssMib: Math.round(field('VmRSS') / KIB_PER_MIB),
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
