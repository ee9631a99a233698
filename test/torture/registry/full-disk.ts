import { type Effort, Failures, type Finding } from '../topic.ts';
import { Scene } from './scene.ts';
import { openSmallDisk, type SmallDisk } from './small-disk.ts';
import { connectTo } from './sms-client.ts';

const MAX_LEFT_BYTES = 40_000;
const MAX_REFUSALS = 12;
/** A smaller change may find room after one that did not; after so many in a row none did. */
const SURELY_FULL = 8;
/** How long writers go on with what is left. */
const FILLED_MS = 400;
/** How soon a registry that has room again takes changes again. */
const RECOVERY_MS = 15_000;

/** The disk fills up under writes; in half of the cases the process is killed and starts again before there is room. */
export async function fullDisk(effort: Effort): Promise<Finding> {
  const all = effort.of(2, 40);
  const { random } = effort;
  const failures = new Failures();
  const disk = openSmallDisk();
  const scene = await Scene.open({ failures, directory: disk.directory });
  let count = 0;
  let refused = 0;
  try {
    for (; count < all && !effort.isOver(); count++) {
      const when = `full disk ${count + 1}`;
      refused += await fillUnderWrites(scene, disk, effort, when);
      if (random.chance(2)) {
        await scene.lives.kill();
        scene.trail.afterKill([], when);
        await scene.lives.start();
      }
      await scene.check(`${when}, still full`);
      disk.empty(scene.lives);
      await recovers(scene, when);
      await scene.check(`${when}, with room again`);
      effort.progress(count, all);
    }
    await scene.lives.kill();
    scene.trail.afterKill([], 'after the full disks');
  } catch (error) {
    failures.add(`after ${count}: ${error}`);
  } finally {
    await scene.close();
    disk.close();
  }
  const { ledger, lives } = scene;
  const measured = `${disk.kind}; ${refused} writes refused, ${ledger.acknowledgedWrites} acknowledged`;
  const lost = ledger.lost + scene.wrongAtWatchers;
  return { what: 'full disk under writes', count, lost, crashed: lives.crashed, measured, failures: failures.list() };
}

async function fillUnderWrites(scene: Scene, disk: SmallDisk, { random }: Effort, when: string): Promise<number> {
  const writers = scene.writers(random.seed(), true);
  await writers.acknowledged(1 + random.below(20));
  const refusals = 1 + random.below(MAX_REFUSALS);
  // What is left may do for a long time, where records take the place of others: then it is taken as well.
  for (const leftBytes of [random.chance(2) ? 0 : random.below(MAX_LEFT_BYTES), 0]) {
    disk.fill(scene.lives, leftBytes);
    await Promise.race([writers.refusals(refusals), new Promise((resolve) => setTimeout(resolve, FILLED_MS))]);
  }
  await writers.stop();
  if (writers.cutOff > 0) scene.failures.add(`${when}: ${writers.cutOff} writers were cut off`);
  const { status, text } = await readiness(scene);
  if (writers.refusedInARow >= SURELY_FULL && (status !== 503 || !text.includes('read_only'))) {
    scene.failures.add(`${when}: nothing can be stored, and /readyz says ${status} ${text}`);
  }
  return writers.refused;
}

async function recovers(scene: Scene, when: string): Promise<void> {
  const deadline = performance.now() + RECOVERY_MS;
  let last = await readiness(scene);
  while (last.status !== 200 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    last = await readiness(scene);
  }
  if (last.status !== 200) scene.failures.add(`${when}: not ready although there is room: ${last.status} ${last.text}`);
}

async function readiness(scene: Scene): Promise<{ readonly status: number; readonly text: string }> {
  const client = connectTo(await scene.lives.serving(), scene.token('node'));
  try {
    return await client.http('GET', '/readyz');
  } finally {
    client.close();
  }
}
