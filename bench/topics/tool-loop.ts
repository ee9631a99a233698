import { ARGUMENTS, SERVER_ID, TOOL } from '../guests/echo-servers.ts';
import type { ModelToolCall } from '../guests/model-endpoint.ts';
import { guestToolCall, type ModelTurn, openModelTurn } from '../guests/model-turn.ts';
import { type Placement, placeGuestApart, placementProblem, placements, placeOnOneCore } from '../measure/placement.ts';
import { goal, notMeasured, type Row, rowWithRatios } from '../measure/row.ts';
import { inMicroseconds, type StepRounds, stepInTurns } from '../measure/stepped.ts';
import { countedSteps } from '../measure/threads.ts';
import { type ProcessorTimes, processorRows } from './processor-rows.ts';
import type { Effort, Topic } from './topic.ts';

const PARALLEL_CALLS = 8;

interface Variant {
  readonly name: string;
  readonly calls: readonly ModelToolCall[];
  readonly mcpCalls: number;
  /** What the loop may add, with everything on one core. */
  readonly addedUs: number;
}

const encoded = (name: string) => Buffer.from(name).toString('base64url');

const variants: readonly Variant[] = [
  {
    name: 'a turn with one guest tool',
    calls: [guestToolCall],
    mcpCalls: 0,
    addedUs: 350,
  },
  {
    name: `a turn with ${PARALLEL_CALLS} parallel MCP calls`,
    calls: Array.from({ length: PARALLEL_CALLS }, () => ({
      name: `mcp__${encoded(SERVER_ID)}__${encoded(TOOL)}`,
      arguments: ARGUMENTS,
    })),
    mcpCalls: PARALLEL_CALLS,
    addedUs: 200,
  },
];

/** One send with AUTO_TOOL_CALL: the model asks for tools, gets their results, answers. */
export const topic: Topic = async (effort) => {
  if (placementProblem('one core') === null) placeOnOneCore();
  const rows: Row[] = [];
  for (const variant of variants) {
    for (const placement of placements) rows.push(...(await measure(variant, placement, effort)));
  }
  return rows;
};

async function measure(variant: Variant, placement: Placement, effort: Effort): Promise<Row[]> {
  const name = `${variant.name}, ${placement}`;
  const yardstickName = variant.mcpCalls > 0 ? 'a plain loop: undici + bare SDK client' : 'a plain loop: undici';
  // Each of the four hops of a guest tool wakes a thread on the other core there: a floor, so without a goal.
  const wanted = placement === 'one core' ? goal.addedAtMost(variant.addedUs, 'µs') : null;
  const text = { topic: 'tool-loop', name, unit: 'µs', yardstickName, goal: wanted } as const;
  const processor = (times: ProcessorTimes) =>
    placement === 'one core' ? processorRows('tool-loop', name, yardstickName, null, times) : [];
  const problem = placementProblem(placement);
  if (problem !== null) return [notMeasured(text, problem), ...processor({ problem })];

  const turn = await openModelTurn(variant.calls, variant.mcpCalls);
  const { ours, bare, close } = turn;
  try {
    if (placement === 'guest apart') placeGuestApart(ours.pid);
    const counted = countedSteps(ours.pid, (count) => ours.steps(count));
    const countedBare = countedSteps(bare.pid, bare.steps);
    // The loop is more code than the yardstick, and takes longer until the engine has compiled it.
    const rounds = { rounds: effort.of(7, 41), steps: effort.of(12, 40), warmUp: effort.of(200, 5_000) };
    const samples = inMicroseconds(await stepInTurns(counted.steps, countedBare.steps, rounds));
    const times = { ours: counted.perStep(), yardstick: countedBare.perStep() };
    const hops = variant.mcpCalls === 0 && placement === 'one core' ? [await besideHops(name, turn, rounds)] : [];
    return [rowWithRatios(text, samples), ...hops, ...processor(times)];
  } finally {
    await close();
  }
}

/** What no tool on a thread of its own can do without: what is above it is the loop, its checks and the trail. */
async function besideHops(name: string, { ours, openHopping }: ModelTurn, rounds: StepRounds): Promise<Row> {
  const hopping = await openHopping();
  try {
    const yardstickName = 'a plain loop behind bare thread hops';
    const samples = inMicroseconds(await stepInTurns(ours.steps, hopping.steps, rounds));
    return rowWithRatios({ topic: 'tool-loop', name, unit: 'µs', yardstickName, goal: null }, samples);
  } finally {
    await hopping.close();
  }
}
