// What is guarded by processor time: whole calls, in spear-run as it was built, beside the same by bare libraries.
import { openBareWorker } from '../guests/bare-worker-host.ts';
import { bareServer, callBare } from '../guests/echo-servers.ts';
import { GuestProcess, type SlowWrites } from '../guests/guest-process.ts';
import { callingGuest, mcpFlags } from '../guests/mcp-guest.ts';
import { guestToolCall, openModelTurn } from '../guests/model-turn.ts';
import { quantile } from '../measure/statistics.ts';
import { stepInTurns } from '../measure/stepped.ts';
import { type CountedSteps, countedHere, countedSteps, type ThreadTimes } from '../measure/threads.ts';
import type { Costs, Ratios } from './compare.ts';
import { GOVERNED_CALL, TURN } from './figure-groups.ts';
import type { Plant } from './slow-down.ts';

interface Contest {
  readonly ours: CountedSteps;
  readonly yardstick: CountedSteps;
  close(): Promise<void>;
}

interface ProcessorFigure {
  readonly name: string;
  readonly open: (slow: SlowWrites | null) => Promise<Contest>;
  readonly rounds: { readonly rounds: number; readonly steps: number; readonly warmUp: number };
}

/** Noise only ever adds work: of many rounds the low ones are nearest to the truth. */
const LOW = 0.1;
/** Rounds of trials that find out how much slower is slower enough. */
const TRIAL_ROUNDS = 15;
const FIRST_GUESS_NS = 20_000;
const LEAST_ADDED = 0.05;

export const processorFigures: readonly ProcessorFigure[] = [
  {
    name: GOVERNED_CALL,
    rounds: { rounds: 31, steps: 50, warmUp: 1_500 },
    open: async (slow) => {
      const wasm = callingGuest(bareServer);
      const ours = new GuestProcess({ wasm, flags: (folder) => mcpFlags(folder, [bareServer.record]), slow });
      const client = await bareServer.connect();
      // Behind a thread hop as well: what other processes do to hops they do to both sides.
      const hopping = openBareWorker(() => callBare(client, bareServer));
      return {
        ours: countedSteps(ours.pid, (count) => ours.steps(count)),
        yardstick: countedHere(hopping.steps),
        close: async () => {
          await hopping.close();
          await client.close();
          await ours.close();
        },
      };
    },
  },
  {
    name: TURN,
    rounds: { rounds: 25, steps: 15, warmUp: 200 },
    open: async (slow) => {
      const { ours, bare, close } = await openModelTurn([guestToolCall], 0, slow);
      return {
        ours: countedSteps(ours.pid, ours.steps),
        yardstick: countedSteps(bare.pid, bare.steps),
        close,
      };
    },
  },
];

export async function measureProcessor(plant: Plant): Promise<Record<string, Costs>> {
  const found: Record<string, Costs> = {};
  for (const figure of processorFigures) {
    const ns = plant[figure.name];
    found[figure.name] = await costsOf(figure, ns === undefined ? null : { ns }, figure.rounds.rounds);
  }
  return found;
}

/** How slow writes have to be. By trial: how many there are for a call is not this file's to know. */
export async function findSlowWrites(wanted: Ratios): Promise<Plant> {
  const plant: Record<string, number> = {};
  for (const figure of processorFigures) {
    const ratio = wanted[figure.name];
    if (ratio === undefined) continue;
    const idle = ratioOf(await costsOf(figure, null, TRIAL_ROUNDS));
    const added = ratioOf(await costsOf(figure, { ns: FIRST_GUESS_NS }, TRIAL_ROUNDS)) - idle;
    plant[figure.name] = Math.max(0, Math.round((FIRST_GUESS_NS * (ratio - idle)) / Math.max(added, LEAST_ADDED)));
  }
  return plant;
}

const ratioOf = ({ ours, yardstick }: Costs) => ours / yardstick;

async function costsOf(figure: ProcessorFigure, slow: SlowWrites | null, rounds: number): Promise<Costs> {
  const { ours, yardstick, close } = await figure.open(slow);
  try {
    await stepInTurns(ours.steps, yardstick.steps, { ...figure.rounds, rounds });
    return { ours: low(ours.perStep(), ownThreads), yardstick: low(yardstick.perStep(), ownThreads) };
  } finally {
    await close();
  }
}

/** Without the helpers: when V8 collects garbage is its own affair, and their time comes in lumps. */
const ownThreads = ({ host, guest, trail }: ThreadTimes) => host + guest + trail;

const low = (times: readonly ThreadTimes[], of: (times: ThreadTimes) => number) => quantile(times.map(of), LOW);
