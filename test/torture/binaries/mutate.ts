import type { TranspileRequest } from '../../../src/runtime/wasm/component/transpile.ts';
import { Random } from '../random.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { judge } from './admission.ts';
import { coreNames } from './core-names.ts';
import type { Binary } from './corpus.ts';
import { mutated } from './mutations.ts';

/** For one binary, in time of this thread: whatever is in it, admission is no work to speak of. */
const MAX_JUDGING_MS = 2_000;
/** Larger ones are no better and slower: of them only one in so many is mutated. */
const LARGE_BYTES = 200_000;
const LARGE_ONE_IN = 200;
/** Of the admitted ones; all of those in which something like a name was made hostile. */
const KEPT_ONE_IN = 20;

/** What a name of an admitted component consists of: then it is no code, whatever is written around it. */
const HARMLESS = /^[\w.:/@\-[\]#$ |]*$/;

/** Mutates binaries of one kind and has each of them judged. */
export async function mutate(
  what: string,
  corpus: readonly Binary[],
  goal: number,
  effort: Effort,
  keep: (request: TranspileRequest) => void,
): Promise<Finding> {
  const failures = new Failures();
  const started = performance.now();
  let count = 0;
  let admitted = 0;
  let longestMs = 0;
  for (; count < goal && !effort.isOver(); count++) {
    const seed = effort.random.seed();
    const random = new Random(seed);
    const [base, other] = [pick(random, corpus), pick(random, corpus)];
    const { how, bytes } = mutated(random, Buffer.from(base.bytes), Buffer.from(other.bytes));
    const which = `case ${seed}, ${base.name}: ${how}`;
    const before = process.threadCpuUsage();
    try {
      const judgement = await judge(bytes);
      if ('admitted' in judgement) {
        admitted++;
        if (judgement.admitted !== null) {
          const hostile = coreNames(judgement.admitted.bytes).find((name) => !HARMLESS.test(name));
          if (hostile !== undefined) failures.add(`${which}: jco would get the name ${JSON.stringify(hostile)}`);
          if (how.startsWith('a hostile name') || random.chance(KEPT_ONE_IN)) keep(judgement.admitted);
        }
      }
    } catch (error) {
      failures.add(`${which}: ${(error as Error).stack ?? String(error)}`);
    }
    const { user, system } = process.threadCpuUsage(before);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    if ((user + system) / 1000 > MAX_JUDGING_MS)
      failures.add(`${which}: it was judged for ${(user + system) / 1000} ms`);
    effort.progress(count, goal);
  }
  if (admitted === 0 || admitted === count) failures.add(`${admitted} of ${count} were admitted: no gate does that`);
  const perSecond = Math.round(count / ((performance.now() - started) / 1000));
  const measured = `${admitted} admitted; ${perSecond} a second, the longest ${longestMs.toFixed(0)} ms`;
  return { what, count, lost: 0, crashed: 0, measured, failures: failures.list() };
}

function pick(random: Random, corpus: readonly Binary[]): Binary {
  const chosen = random.pick(corpus);
  return chosen.bytes.length > LARGE_BYTES && !random.chance(LARGE_ONE_IN) ? pick(random, corpus) : chosen;
}
