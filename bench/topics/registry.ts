import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { inProcessSource } from '../../src/registry-client/source.ts';
import { createMemoryStore } from '../../src/server/store/local-store.ts';
import { largeRegistryId } from '../../test/registry/large-registry.ts';
import { sampleRecord } from '../../test/server/records/server-samples.ts';
import { openSms, type SmsProcess } from '../guests/sms-process.ts';
import { goal, type Row, rowWithRatios } from '../measure/row.ts';
import { median } from '../measure/statistics.ts';
import type { Effort, Topic } from './topic.ts';

const nodesProgram = fileURLToPath(new URL('../guests/registry-nodes.ts', import.meta.url));
const P99_MS = 100;
/** What is measured is the way of a change, not a queue. */
const PAUSE_MS = 20;
/** For the last change to arrive before the nodes are asked what did. */
const SETTLE_MS = 1_000;
const READY_MS = 60_000;
const UPSERTS_PER_ROUND = 10;
/** What a commit writes and waits for: three pages of the log. */
const COMMIT_BYTES = 3 * 4096;

const cause =
  'a change is on the disk before it is visible, so it waits for other writers (see the row of the disk alone); ' +
  'and the nodes of a process collect their garbage at the same moment, because all of them got the same change';

const now = () => performance.timeOrigin + performance.now();
/** A record that says what it said before would be no change. */
let changes = 0;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Watching {
  readonly processes: number;
  readonly caches: number;
  readonly watchers: number;
}

/** From the start of an upsert to the moment at which a node's cache has it. */
export const topic: Topic = async (effort) => {
  const records = effort.of(1_000, 10_000);
  const sms = await openSms(records);
  const local = await openLocal(records);
  const disk = openDisk();
  try {
    const one = { processes: 1, caches: 1, watchers: 0 };
    const many = effort.quick ? { processes: 1, caches: 2, watchers: 18 } : { processes: 4, caches: 2, watchers: 23 };
    const sides = { sms, local, disk };
    return [...(await measure(sides, records, one, effort)), ...(await measure(sides, records, many, effort))];
  } finally {
    disk.close();
    await local.close();
    await sms.close();
  }
};

async function measure(
  { sms, local, disk }: { readonly sms: SmsProcess; readonly local: Local; readonly disk: Disk },
  records: number,
  watching: Watching,
  effort: Effort,
): Promise<Row[]> {
  const { processes, caches, watchers } = watching;
  const revision = await sms.upsert(sampleRecord(largeRegistryId(0), { display_name: 'before the nodes' }));
  const given = [sms.grpc, sms.nodeToken, String(revision), String(caches), String(watchers)];
  const nodes = Array.from({ length: processes }, () => fork(nodesProgram, given));
  try {
    await Promise.all(nodes.map((node) => once(node, 'message')));
    const started = new Map<number, { atMs: number; round: number }>();
    const yardstick: number[] = [];
    const commits: number[] = [];
    const rounds: number[][] = [];
    for (let round = 0; round < effort.of(3, 25); round++) {
      const before = yardstick.length;
      for (let index = 0; index < UPSERTS_PER_ROUND; index++) {
        const id = largeRegistryId(((round * UPSERTS_PER_ROUND + index) * 37) % records);
        const record = sampleRecord(id, { display_name: `changed ${++changes}` });
        yardstick.push(await local.upsert(record));
        commits.push(disk.commit());
        const atMs = now();
        started.set(await sms.upsert(record), { atMs, round });
        await pause(PAUSE_MS);
      }
      rounds.push(yardstick.slice(before));
    }
    await pause(SETTLE_MS);
    const seen = (await Promise.all(nodes.map(collect))).flat();
    return rowsOf(records, watching, { started, seen, yardstick, commits, rounds });
  } finally {
    for (const node of nodes) node.kill('SIGKILL');
  }
}

function rowsOf(
  records: number,
  { processes, caches, watchers }: Watching,
  measured: {
    started: ReadonlyMap<number, { atMs: number; round: number }>;
    seen: Seen;
    yardstick: readonly number[];
    commits: readonly number[];
    rounds: readonly (readonly number[])[];
  },
): Row[] {
  const { started, seen, yardstick, commits, rounds } = measured;
  const delays = seen.flatMap(([revision, atMs]) => {
    const upsert = started.get(revision);
    return upsert === undefined ? [] : [{ ms: atMs - upsert.atMs, round: upsert.round }];
  });
  const missing = processes * caches * started.size - delays.length;
  if (missing !== 0) throw new Error(`${missing} changes did not arrive one by one`);
  const clients = processes * (caches + watchers);
  const ratios = rounds.map((local, at) => {
    const own = delays.filter(({ round }) => round === at).map(({ ms }) => ms);
    return median(own) / median(local);
  });
  const text = {
    topic: 'registry',
    name: `upsert to visible, ${clients} watching, ${records} records`,
    unit: 'ms',
    yardstickName: 'in-process event',
    goal: goal.p99AtMost(P99_MS, 'ms'),
    cause,
  } as const;
  const all = delays.map(({ ms }) => ms);
  const disk = {
    topic: 'registry',
    name: `the disk alone meanwhile, ${clients} watching`,
    unit: 'ms',
    yardstickName: 'upsert to visible',
    goal: null,
  } as const;
  const share = [median(commits) / median(all)];
  return [
    rowWithRatios(text, { ours: all, yardstick, ratios }),
    rowWithRatios(disk, { ours: commits, yardstick: all, ratios: share }),
  ];
}

type Seen = readonly (readonly [revision: number, atMs: number])[];

/** What the caches of a process saw, and when. */
async function collect(node: ChildProcess): Promise<Seen> {
  const answer = once(node, 'message') as Promise<[{ inCaches: Seen }]>;
  node.send('report');
  return (await answer)[0].inCaches;
}

interface Disk {
  /** Milliseconds until so many bytes as a commit has are on the disk. */
  commit(): number;
  close(): void;
}

/** The disk that the registry's file lies on. */
function openDisk(): Disk {
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  const file = openSync(join(folder, 'commits'), 'w');
  const bytes = Buffer.alloc(COMMIT_BYTES, 1);
  return {
    commit() {
      const atMs = now();
      writeSync(file, bytes);
      fsyncSync(file);
      return now() - atMs;
    },
    close() {
      closeSync(file);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface Local {
  /** Milliseconds until the cache of this process has the record. */
  upsert(record: ReturnType<typeof sampleRecord>): Promise<number>;
  close(): Promise<void>;
}

/** The same store interface and the same cache, with nothing between them. */
async function openLocal(records: number): Promise<Local> {
  const store = createMemoryStore();
  for (let index = 0; index < records; index++) await store.upsert(sampleRecord(largeRegistryId(index)));
  const cache = new RegistryCache({ source: inProcessSource(store) });
  let arrived: (revision: number) => void = () => {};
  cache.onChange(({ snapshot }) => arrived(snapshot.revision));
  cache.start();
  if (!(await cache.ready(READY_MS))) throw new Error('the local cache did not become ready');
  return {
    async upsert(record) {
      const seen = new Map<number, number>();
      const atMs = now();
      const visible = Promise.withResolvers<void>();
      let wanted = Number.POSITIVE_INFINITY;
      arrived = (revision) => {
        seen.set(revision, now());
        if (revision >= wanted) visible.resolve();
      };
      wanted = (await store.upsert(record)).revision;
      if (!seen.has(wanted)) await visible.promise;
      return (seen.get(wanted) as number) - atMs;
    },
    async close() {
      await cache.close();
      await store.close();
    },
  };
}
