import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { EmbeddedQueue } from '../../src/queue/embedded/embedded-queue.ts';
import type { Claim, ParkedFor } from '../../src/queue/run-queue.ts';
import { runGuest } from '../../src/run/run-guest.ts';
import { GuestThreads } from '../../src/run/threads/guest-threads.ts';
import { FileJournals } from '../../src/spearlet/run-journals.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Effort } from './topic.ts';

/** How many are parked; SPEAR_BENCH_PARKED says otherwise. */
const PARKED = 100_000;
const BATCH = 2_000;
const LEASE_MS = 600_000;
const GOAL_KIB = 2;
const GOAL_WAKE_MS = 50;
const KIB = 1024;
/** Longer than the guest waits before it is parked, shorter than anybody minds. */
const SLEEP_MS = 300;
const PARK_AFTER_MS = 50;

const sleeper = fileURLToPath(new URL('../../fixtures/c/test/sleep.wasm', import.meta.url));
const about = { namespace: 'default', task: 'payer', revision: 1, pool: 'default', submittedBy: 'alice' };

/** What runs cost that wait without a guest, and how long it takes until one of many goes on. */
export async function parkedRows(effort: Effort): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-parked-'));
  const count = Number(process.env.SPEAR_BENCH_PARKED ?? effort.of(PARKED / 10, PARKED));
  const queue = new EmbeddedQueue(join(folder, 'runs.db'), { maxQueued: count + BATCH });
  try {
    const before = heapKib();
    await parkMany(queue, count);
    const heap = (heapKib() - before) / count;
    const disk = diskKib(folder) / count;
    const waking = await wakeSome(queue, folder, effort.of(30, 200));
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
          ...{ topic: 'node', name: 'waking a parked run with a short journal', unit: 'ms', note: measured },
          yardstickName: 'a new run of the same guest',
          goal: goal.p99AtMost(GOAL_WAKE_MS, 'ms'),
        },
        waking.woken,
        waking.begun,
      ),
    ];
  } finally {
    await queue.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function heapKib(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / KIB;
}

const diskKib = (folder: string) =>
  readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) / KIB;

async function parkMany(queue: EmbeddedQueue, count: number): Promise<void> {
  for (let done = 0; done < count; done += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - done) }, (_, at) => done + at);
    await Promise.all(batch.map((n) => submit(queue, `run-${n.toString(16).padStart(32, '0')}`)));
    const claims = await claim(queue, batch.length);
    const until: ParkedFor = { kind: 'approval', request: '0123456789abcdef-1' };
    await Promise.all(claims.map((one) => queue.park(one, until)));
  }
}

const submit = (queue: EmbeddedQueue, id: string) =>
  queue.submit({ ...about, id, wasm: 'a'.repeat(64), input: new Uint8Array(100), maxAttempts: 3 });

const claim = (queue: EmbeddedQueue, max: number): Promise<readonly Claim[]> =>
  queue.claim('n1', 'default', max, LEASE_MS, () => true);

/** Milliseconds until a woken guest does something new, and until a new one does something at all. */
async function wakeSome(queue: EmbeddedQueue, folder: string, count: number) {
  const journals = new FileJournals(join(folder, 'journals'));
  const threads = new GuestThreads();
  const wasm = readFileSync(sleeper);
  const woken: number[] = [];
  const begun: number[] = [];
  try {
    for (let n = 0; n < count; n++) {
      const id = `woken-${n}`;
      const started = performance.now();
      await submit(queue, id);
      const [first] = (await claim(queue, 1)) as [Claim];
      let until: ParkedFor = { kind: 'stream' };
      const live = (mode: 'record' | 'resume', said: string, onSaid: () => void, signal: AbortSignal) =>
        runGuest({
          ...{ wasm, run: id, args: ['sleep', String(SLEEP_MS)], threads, signal },
          journal: journals.option(first, mode),
          output: (_, bytes) => {
            if (Buffer.from(bytes).includes(said)) onSaid();
          },
          waits:
            mode === 'resume'
              ? null
              : {
                  parkAfterMs: PARK_AFTER_MS,
                  onWaiting: () => {},
                  onPark: (when) => {
                    until = when;
                  },
                },
        });
      await live('record', 'before', () => begun.push(performance.now() - started), new AbortController().signal);
      await queue.park(first, until);
      // Its time is over by then: what is measured is the way back.
      await new Promise((resolve) => setTimeout(resolve, SLEEP_MS));
      const wokenAt = performance.now();
      await queue.wake('default', id);
      const [again] = (await claim(queue, 1)) as [Claim];
      await journals.earlier(again);
      const over = new AbortController();
      const goneOn = () => {
        woken.push(performance.now() - wokenAt);
        over.abort();
      };
      await live('resume', 'usleep', goneOn, over.signal);
      await queue.release(again, false);
      await queue.cancel('default', id);
    }
    return { woken, begun };
  } finally {
    await threads.close();
  }
}
