import { type Effort, Failures, type Finding } from '../topic.ts';
import { Scene } from './scene.ts';

const MAX_PAUSE_MS = 900;
const MAX_BETWEEN_MS = 120;
/** Pauses until everything is compared. */
const ROUND = 4;

/** The process stands still under writes, as in a frozen container or a machine that swaps, and goes on. */
export async function pauses(effort: Effort): Promise<Finding> {
  const all = effort.of(2, 60);
  const { random } = effort;
  const failures = new Failures();
  const scene = await Scene.open({ failures });
  let count = 0;
  try {
    while (count < all && !effort.isOver()) {
      const writers = scene.writers(random.seed());
      for (let inRound = 0; inRound < ROUND && count < all; inRound++, count++) {
        await passed(random.below(MAX_BETWEEN_MS));
        scene.lives.signal('SIGSTOP');
        await passed(random.below(MAX_PAUSE_MS));
        scene.lives.signal('SIGCONT');
      }
      // Whoever was waiting is answered: nobody is cut off for what the process could not help.
      await writers.stop();
      if (writers.cutOff > 0) failures.add(`pause ${count}: ${writers.cutOff} writers were cut off`);
      await scene.check(`pause ${count}`);
      effort.progress(count, all);
    }
    await scene.lives.kill();
    scene.trail.afterKill([], 'after the pauses');
  } catch (error) {
    failures.add(`after ${count}: ${error}`);
  } finally {
    await scene.close();
  }
  const { ledger, lives } = scene;
  const measured = `${ledger.acknowledgedWrites} acknowledged writes`;
  const lost = ledger.lost + scene.wrongAtWatchers;
  return { what: 'SIGSTOP under writes', count, lost, crashed: lives.crashed, measured, failures: failures.list() };
}

function passed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
