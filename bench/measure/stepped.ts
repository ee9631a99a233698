import { median } from './statistics.ts';

/** Something that takes steps and says how long each took, in nanoseconds. */
export type Stepper = (count: number) => Promise<number[]>;

export interface SteppedSamples {
  /** Of every step. */
  readonly ours: number[];
  readonly yardstick: number[];
  /** Of the medians of each round. */
  readonly ratios: number[];
}

export interface StepRounds {
  readonly rounds: number;
  readonly steps: number;
  readonly warmUp: number;
}

/** Rounds of steps in turn: the yardstick, ours, ours, the yardstick, … */
export async function stepInTurns(
  ours: Stepper,
  yardstick: Stepper,
  { rounds, steps, warmUp }: StepRounds,
): Promise<SteppedSamples> {
  const samples: SteppedSamples = { ours: [], yardstick: [], ratios: [] };
  await ours(warmUp);
  await yardstick(warmUp);
  for (let round = 0; round < rounds; round++) {
    const first = round % 2 === 0 ? yardstick : ours;
    const one = await first(steps);
    const other = await (first === ours ? yardstick : ours)(steps);
    const [mine, bare] = first === ours ? [one, other] : [other, one];
    for (const ns of mine) samples.ours.push(ns);
    for (const ns of bare) samples.yardstick.push(ns);
    samples.ratios.push(median(mine) / median(bare));
  }
  return samples;
}

const NS_PER_US = 1_000;

export const inMicroseconds = ({ ours, yardstick, ratios }: SteppedSamples): SteppedSamples => ({
  ours: ours.map((ns) => ns / NS_PER_US),
  yardstick: yardstick.map((ns) => ns / NS_PER_US),
  ratios,
});

/** Times `step` as a guest times its own. */
export function stepper(step: () => Promise<unknown>): Stepper {
  return async (count) => {
    const times: number[] = [];
    let before = process.hrtime.bigint();
    for (let index = 0; index < count; index++) {
      await step();
      const now = process.hrtime.bigint();
      times.push(Number(now - before));
      before = now;
    }
    return times;
  };
}
