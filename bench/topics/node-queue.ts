import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { EmbeddedQueue } from '../../src/server/queue/embedded/embedded-queue.ts';
import { requireBuild } from '../guests/built.ts';
import { hello, openHelloNode } from '../guests/hello-node.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Topic } from './topic.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Submissions under way, and processes at once: two cores have something to do. */
const LANES = 32;
const PROCESSES = 2;
/** A node runs fifty while as many processes as there are cores run one. */
const HELLO_RATIO = 1 / 50;

/** What a run costs on a node, through its queue and all, beside a process for each. */
export const topic: Topic = async (effort) => {
  requireBuild();
  const rounds = effort.of(2, 5);
  const [queued, bare, onNode, processes]: number[][] = [[], [], [], []];
  for (let round = 0; round < rounds; round++) {
    queued?.push(await throughQueue(effort.of(2_000, 10_000)));
    bare?.push(bareCommits(effort.of(50, 200)));
    onNode?.push(await helloOnNode(effort.of(500, 5_000)));
    processes?.push(await helloByProcess(effort.of(8, 40)));
  }
  const text = { topic: 'node-queue', unit: 'ms' } as const;
  return [
    rowFrom(
      { ...text, name: 'a run through the queue, many at once', yardstickName: 'one commit of SQLite', goal: null },
      queued ?? [],
      bare ?? [],
    ),
    rowFrom(
      {
        ...text,
        name: 'a hello run on a node, by HTTP and with its journal',
        yardstickName: 'a spear-run process, two at once',
        goal: goal.ratioAtMost(HELLO_RATIO),
      },
      onNode ?? [],
      processes ?? [],
    ),
  ] satisfies Row[];
};

function inFolder<T>(work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-node-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const made = work(folder);
  if (made instanceof Promise) return made.finally(remove) as T;
  remove();
  return made;
}

/** Milliseconds for one to be submitted, claimed and finished. */
const throughQueue = (runs: number): Promise<number> =>
  inFolder(async (folder) => {
    const queue = new EmbeddedQueue(join(folder, 'runs.db'), { maxQueued: runs });
    const about = {
      namespace: 'default',
      task: 't',
      revision: 1,
      wasm: '',
      pool: 'p',
      submittedBy: 'b',
      maxAttempts: 1,
    };
    const input = new Uint8Array(100);
    const ending = {
      status: 'succeeded',
      exit: { reason: 'exit', code: 0, message: null },
      cost: null,
      result: input,
    } as const;
    const started = performance.now();
    await Promise.all(Array.from({ length: runs }, (_, n) => queue.submit({ id: `r${n}`, ...about, input })));
    for (;;) {
      const claims = await queue.claim('n', 'p', 256, 60_000, () => true);
      if (claims.length === 0) break;
      await Promise.all(claims.map((claim) => queue.finish(claim, ending)));
    }
    const took = performance.now() - started;
    await queue.close();
    return took / runs;
  });

const bareCommits = (commits: number): number =>
  inFolder((folder) => {
    const db = new DatabaseSync(join(folder, 'bare.db'));
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (a)');
    const insert = db.prepare('INSERT INTO t VALUES (?)');
    const started = performance.now();
    for (let n = 0; n < commits; n++) insert.run(n);
    const took = performance.now() - started;
    db.close();
    return took / commits;
  });

async function helloOnNode(runs: number): Promise<number> {
  const node = await openHelloNode();
  try {
    await node.run(LANES, LANES); // what is compiled once
    return await node.run(runs, LANES);
  } finally {
    await node.close();
  }
}

async function helloByProcess(runs: number): Promise<number> {
  let begun = 0;
  const started = performance.now();
  const lane = async () => {
    while (begun++ < runs) {
      const child = spawn(process.execPath, [join(root, 'bin/spear-run.cjs'), hello], { stdio: 'ignore' });
      const [code] = await once(child, 'exit');
      if (code !== 0) throw new Error(`spear-run ended with ${code}`);
    }
  };
  await Promise.all(Array.from({ length: PROCESSES }, lane));
  return (performance.now() - started) / runs;
}
