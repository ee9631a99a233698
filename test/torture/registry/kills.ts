import { type Effort, Failures, type Finding } from '../topic.ts';
import { Scene } from './scene.ts';

const MAX_ACKNOWLEDGED = 60;
const MAX_DELAY_MS = 250;
const MAX_STARTING_MS = 250;
const ONE_COMMAND_IN = 25;

/** How a process is killed: after so many writes, at some moment, before it serves, while it is stopped. */
const ways = ['after writes', 'after writes', 'at a moment', 'at a moment', 'starting', 'stopped'] as const;

/** kill -9 under concurrent writes, again and again, on the same data. */
export async function kills(effort: Effort): Promise<Finding> {
  const all = effort.of(4, 200);
  const { random } = effort;
  const failures = new Failures();
  const scene = await Scene.open({ failures });
  let count = 0;
  try {
    for (; count < all && !effort.isOver(); count++) {
      const way = random.pick(ways);
      const when = `kill ${count + 1} (${way})`;
      if (way === 'starting') {
        await scene.lives.kill();
        scene.trail.afterKill([], when);
        await scene.lives.startAndKill(random.below(MAX_STARTING_MS));
        scene.trail.afterKill([], when);
        await scene.lives.start();
      } else await killUnderWrites(scene, effort, way, when);
      await scene.check(when);
      if (random.chance(ONE_COMMAND_IN)) await scene.trail.byCommand();
      effort.progress(count, all);
    }
    await scene.trail.byCommand();
  } catch (error) {
    failures.add(`after ${count}: ${error}`);
  } finally {
    await scene.close();
  }
  const { ledger, lives, watchedEvents } = scene;
  const measured = `${ledger.acknowledgedWrites} acknowledged writes, ${watchedEvents} events at watchers`;
  const lost = ledger.lost + scene.wrongAtWatchers;
  return { what: 'kill -9 under writes', count, lost, crashed: lives.crashed, measured, failures: failures.list() };
}

async function killUnderWrites(scene: Scene, { random }: Effort, way: (typeof ways)[number], when: string) {
  const writers = scene.writers(random.seed());
  if (way === 'after writes') await writers.acknowledged(1 + random.below(MAX_ACKNOWLEDGED));
  else await new Promise((resolve) => setTimeout(resolve, random.below(MAX_DELAY_MS)));
  if (way === 'stopped') scene.lives.signal('SIGSTOP');
  await scene.lives.kill();
  await writers.stop();
  scene.trail.afterKill(writers.revisions, when);
  await scene.lives.start();
}
