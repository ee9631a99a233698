import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type Effort, effortOf, type Finding } from '../topic.ts';
import { readCorpus } from './corpus.ts';
import { mutate } from './mutate.ts';

interface Task {
  readonly short: boolean;
  readonly seed: number;
  readonly goal: number;
}

/** How often the thread hears whether the time is up. */
const ASK_MS = 500;

/** Mutates modules in a thread of its own, which this file is. */
export async function mutateInThread(effort: Effort, goal: number): Promise<Finding> {
  const task: Task = { short: effort.short, seed: effort.random.seed(), goal };
  const worker = new Worker(new URL(import.meta.url), { workerData: task });
  const timer = setInterval(() => effort.isOver() && worker.postMessage('over'), ASK_MS);
  const [finding] = (await once(worker, 'message')) as [Finding];
  clearInterval(timer);
  await worker.terminate();
  return finding;
}

if (!isMainThread && parentPort !== null) {
  const { short, seed, goal } = workerData as Task;
  let over = false;
  parentPort.on('message', () => {
    over = true;
  });
  const effort = { ...effortOf('binaries', { short, seed, endsAt: Number.POSITIVE_INFINITY }), isOver: () => over };
  const { modules } = await readCorpus();
  parentPort.postMessage(await mutate('mutated modules', modules, goal, effort, () => {}));
}
