import { Bench, type Task } from 'tinybench';

/** One thing that is timed. */
export interface Side {
  /** What one run does, so often that reading the clock does not count. */
  readonly run: () => Promise<unknown> | unknown;
  /** Operations in one run; a sample is the time of one of them. */
  readonly operations: number;
  /** Not timed. */
  readonly before?: () => Promise<void> | void;
  /** Not timed; throws where something else was measured than meant. */
  readonly after?: () => void;
}

export interface Rounds {
  readonly rounds: number;
  /** Runs of every side that are not counted. */
  readonly warmUp: number;
}

const NS_PER_MS = 1e6;

/**
 * Runs the sides of every contest in turn, round after round, in an order that changes from round to round: what
 * disturbs the machine disturbs all of them. Gives nanoseconds of one operation, by contest, side and round.
 */
export async function interleave(
  contests: readonly (readonly Side[])[],
  { rounds, warmUp }: Rounds,
): Promise<number[][][]> {
  const bench = new Bench({ iterations: 1, time: 0, warmup: false, retainSamples: true, throws: true });
  const entries = contests.map((sides, contest) =>
    sides.map((side, index) => ({ side, task: addTask(bench, `${contest}/${index}`, side), samples: [] as number[] })),
  );
  for (let round = -warmUp; round < rounds; round++) {
    for (const sides of entries) {
      const turn = round % 2 === 0 ? sides : sides.toReversed();
      for (const { side, task, samples } of turn) {
        task.reset(false);
        await task.run();
        if (round >= 0) samples.push((latency(task) * NS_PER_MS) / side.operations);
      }
    }
  }
  return entries.map((sides) => sides.map(({ samples }) => samples));
}

function addTask(bench: Bench, name: string, { run, before, after }: Side): Task {
  bench.add(name, run, {
    async: true,
    ...(before ? { beforeEach: before } : {}),
    ...(after ? { afterEach: after } : {}),
  });
  return bench.getTask(name) as Task;
}

function latency(task: Task): number {
  const { result } = task;
  if (!('latency' in result)) throw new Error(`${task.name} was not measured: ${result.state}`);
  return result.latency.min;
}
