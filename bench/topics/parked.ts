import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { EndRecord, TimedRecord } from '../../src/runtime/durable/journal.ts';
import { EmbeddedQueue } from '../../src/server/queue/embedded/embedded-queue.ts';
import type { Claim, ParkedFor } from '../../src/server/queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../../src/server/records/run.ts';
import { requireBuild } from '../guests/built.ts';
import { type BenchNode, startBenchNode } from '../guests/node-process.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Effort } from './topic.ts';

/** How many are parked; SPEAR_BENCH_PARKED says otherwise. */
const PARKED = 1_000_000;
const QUICK_PARKED = 10_000;
const BATCH = 2_000;
const LEASE_MS = 600_000;
const GOAL_KIB = 2;
const GOAL_WAKE_MS = 50;
const KIB = 1024;
/** Nobody wakes those while it is measured. */
const FAR_MS = 365 * 86_400_000;
/** Each of the runs that are woken sleeps twice. */
const SLEEP_MS = 2_000;
const SLEEPS = 2;
const PARK_AFTER_MS = 100;
/** One wakes after the other. */
const APART_MS = 40;

const sleeper = fileURLToPath(new URL('../../fixtures/c/test/sleep.wasm', import.meta.url));
const about = { namespace: 'default', task: 'payer', revision: 1, pool: 'default', submittedBy: 'alice' };

/** What runs cost that wait without a guest, and how long it takes until one of many goes on. */
export async function parkedRows(effort: Effort): Promise<Row[]> {
  requireBuild();
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-parked-'));
  const count = Number(process.env.SPEAR_BENCH_PARKED ?? effort.of(QUICK_PARKED, PARKED));
  try {
    const { heap, disk } = await parkMany(join(folder, 'data'), count);
    const waking = await wakeSome(folder, effort.of(25, 250));
    const measured = `${count.toLocaleString('en')} are parked`;
    const text = { topic: 'node', yardstickName: 'the goal' } as const;
    return [
      rowFrom(
        {
          ...{ ...text, name: 'a parked run on the disk, beyond its journal', unit: 'KiB', note: measured },
          goal: goal.medianAtMost(GOAL_KIB, 'KiB'),
        },
        [disk],
        [GOAL_KIB],
      ),
      rowFrom(
        { ...text, name: 'a parked run in memory', unit: 'KiB', goal: null, note: measured },
        [Math.max(0, heap)],
        [GOAL_KIB],
      ),
      rowFrom(
        {
          ...{
            topic: 'node',
            name: 'waking a parked run of a node: from its time to its guest’s next word',
            unit: 'ms',
          },
          note: `${waking.woken.length} were woken, ${measured}`,
          yardstickName: 'a new run of the same guest, from its submission to its first word',
          goal: goal.p99AtMost(GOAL_WAKE_MS, 'ms'),
        },
        waking.woken,
        waking.begun,
      ),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function heapKib(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / KIB;
}

const diskKib = (folder: string) =>
  readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) / KIB;

/** Kibibytes for each, of the heap and of the disk. */
async function parkMany(data: string, count: number) {
  const queue = new EmbeddedQueue(join(data, 'runs.db'), { maxQueued: count + BATCH });
  const before = heapKib();
  for (let done = 0; done < count; done += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - done) }, (_, at) => done + at);
    await Promise.all(batch.map((n) => submit(queue, `run-${n.toString(16).padStart(32, '0')}`)));
    const claims: readonly Claim[] = await queue.claim('n1', 'default', batch.length, LEASE_MS, () => true);
    const until: ParkedFor = { kind: 'time', atMs: Date.now() + FAR_MS };
    await Promise.all(claims.map((one) => queue.park(one, until)));
  }
  const heap = (heapKib() - before) / count;
  await queue.close();
  return { heap, disk: diskKib(data) / count };
}

const submit = (queue: EmbeddedQueue, id: string) =>
  queue.submit({ ...about, id, wasm: 'a'.repeat(64), input: new Uint8Array(100), maxAttempts: 3 });

/** Milliseconds of runs of a real node, as their journals tell them. */
async function wakeSome(folder: string, count: number) {
  const task = `name = "sleep"\nwasm = ${JSON.stringify(sleeper)}\nargs = ["${SLEEP_MS}"]\nconcurrency = 1000\n`;
  const node = await startBenchNode(folder, {
    tasks: { sleep: task },
    config: `[node]\npark_after_ms = ${PARK_AFTER_MS}\n`,
  });
  try {
    const ids: string[] = [];
    for (let n = 0; n < count; n++) {
      ids.push((await node.json<RunRecord>('POST', '/v1/namespaces/default/tasks/sleep/runs')).id);
      await delay(APART_MS);
    }
    const [woken, begun]: [number[], number[]] = [[], []];
    // The first one compiled the module, and loaded what the others need.
    for (const id of ids.slice(1)) {
      const lived = await activationOf(node, id);
      woken.push(...lived.woken);
      begun.push(...lived.woken.map(() => lived.begun));
    }
    return { woken, begun };
  } finally {
    await node.end();
  }
}

/** How long it took to begin, and to go on after each time that it was parked. */
async function activationOf(
  node: BenchNode,
  id: string,
): Promise<{ readonly woken: number[]; readonly begun: number }> {
  const path = `/v1/namespaces/default/runs/${id}`;
  let run = await node.json<RunRecord>('GET', path);
  for (; !hasEnded(run.status); run = await node.json<RunRecord>('GET', path)) await delay(APART_MS);
  const [header, ...records] = (await node.text('GET', `${path}/journal`))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as TimedRecord & { readonly started: number });
  const words = records.flatMap((record, at) => (record.t === 'output' ? [{ at, ms: record.ms }] : []));
  const atMs = (ms: number) => (header?.started ?? 0) + ms;
  const woken = records.flatMap((record, at) => {
    const due = (record as Partial<EndRecord>).sleeps?.[0]?.[1];
    const word = words.find((one) => one.at > at);
    return due === undefined || word === undefined ? [] : [atMs(word.ms) - due];
  });
  if (woken.length !== SLEEPS) throw new Error(`${id} was woken ${woken.length} times: ${JSON.stringify(run)}`);
  return { woken, begun: atMs(words[0]?.ms ?? 0) - run.submitted_at_ms };
}
