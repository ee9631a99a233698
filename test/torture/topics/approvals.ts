import { changedCase, foreignGrantCase, ruleCase } from '../approvals/at-the-gate.ts';
import { deciderKinds } from '../approvals/deciders.ts';
import { guestCase, moments } from '../approvals/in-a-guest.ts';
import { argumentMutations, mutations } from '../approvals/situation.ts';
import { voteCase } from '../approvals/who-votes.ts';
import { lateCase, otherCallsCase } from '../approvals/wrong-answers.ts';
import { type Effort, Failures, type Finding, type Topic } from '../topic.ts';

/** A person takes a moment to read: many of them are asked at the same time. */
const AT_ONCE = 256;

type Case = () => Promise<string | null>;

/** Runs rounds of cases until there are enough or the time is up. */
async function figure(effort: Effort, what: string, rounds: number, round: () => readonly Case[]): Promise<Finding> {
  const failures = new Failures();
  const started = performance.now();
  let count = 0;
  for (let done = 0; done < rounds && !effort.isOver(); done++) {
    const cases = round();
    for (let at = 0; at < cases.length; at += AT_ONCE) {
      const wrong = await Promise.all(cases.slice(at, at + AT_ONCE).map((run) => run()));
      for (const text of wrong) if (text !== null) failures.add(text);
    }
    count += cases.length;
    effort.progress(done, rounds);
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const measured = `${seconds} s`;
  return { what, count, lost: failures.count, crashed: 0, measured, failures: failures.list() };
}

export const topic: Topic = async (effort) => {
  const { random } = effort;
  const changes = [...Object.keys(mutations), ...Object.keys(argumentMutations)];
  return [
    await figure(effort, 'calls of a guest, changed on their way', effort.of(20, 1_000), () =>
      moments.flatMap((moment) =>
        (['allow_once', 'allow_session'] as const).map((decision) => {
          const seed = random.seed();
          return () => guestCase(moment, decision, seed);
        }),
      ),
    ),
    await figure(effort, 'grants used twice, by another call, never given, by rule', effort.of(3, 60), () => {
      const seeds = [...deciderKinds.map(() => random.seed()), random.seed()];
      const foreign = deciderKinds.map((kind, index) => () => foreignGrantCase(kind, seeds[index] as number));
      return [...foreign, () => ruleCase(seeds.at(-1) as number)];
    }),
    await figure(effort, 'answers too late, twice, or for other calls', effort.of(40, 2_000), () => {
      const seeds = [0, 1, 2, 3].map(() => random.seed()) as [number, number, number, number];
      return [
        () => otherCallsCase(seeds[0]),
        () => lateCase('deadline', seeds[1]),
        () => lateCase('cancelled', seeds[2]),
        () => lateCase('guest ended', seeds[3]),
      ];
    }),
    await figure(effort, 'votes of submitters, and of one creator under several names', effort.of(40, 4_000), () => {
      const seeds = [0, 1, 2, 3].map(() => random.seed());
      return seeds.map((seed) => () => voteCase(seed));
    }),
    // Last: people take longest.
    await figure(
      effort,
      `${changes.length} bound fields × ${deciderKinds.length} deciders, changed before the send`,
      effort.of(2, 60),
      () =>
        deciderKinds.flatMap((kind) =>
          changes.map((change) => {
            const seed = random.seed();
            return () => changedCase(kind, change, seed);
          }),
        ),
    ),
  ];
};
