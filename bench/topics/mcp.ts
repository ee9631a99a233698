import { openBareWorker } from '../guests/bare-worker-host.ts';
import {
  ARGUMENTS,
  bareServer,
  callBare,
  callBareByText,
  type EchoServer,
  openHttpServer,
  stdioServer,
} from '../guests/echo-servers.ts';
import { GuestProcess } from '../guests/guest-process.ts';
import { BATCH, callingGuest, mcpFlags, SUBMITTED } from '../guests/mcp-guest.ts';
import { type Placement, placeGuestApart, placementProblem, placeOnOneCore } from '../measure/placement.ts';
import { type Goal, goal, notMeasured, type Row, type RowText, rowWithRatios } from '../measure/row.ts';
import { inMicroseconds, type SteppedSamples, type Stepper, stepInTurns, stepper } from '../measure/stepped.ts';
import { countedHere, countedSteps } from '../measure/threads.ts';
import { type ProcessorTimes, processorRows } from './processor-rows.ts';
import type { Effort, Topic } from './topic.ts';

const BARE = 'bare SDK client';
/** What a guest on a thread of its own cannot do without: what is above it is policy, checks and the trail. */
const HOPPING = 'bare SDK client behind a bare thread hop';

interface Goals {
  readonly one: Goal;
  readonly hopping: Goal | null;
  /** The guest's thread on the other core; undefined: not measured. */
  readonly apart?: Goal;
  readonly submitted: Goal;
  readonly host: Goal | null;
}

const stdioGoals: Goals = {
  one: goal.addedAtMost(50, 'µs'),
  hopping: goal.ratioAtMost(1),
  apart: goal.ratioAtMost(1.15),
  submitted: { text: 'throughput ≥ 0.9', met: ({ ratio }) => ratio <= 1 / 0.9 },
  host: goal.medianAtMost(70, 'µs'),
};

const httpGoals: Goals = {
  one: goal.ratioAtMost(0.9),
  hopping: null,
  submitted: goal.ratioAtMost(0.9),
  host: null,
};

/** A whole governed call: guest → policy → validation → budget → audit → server → guest. */
export const topic: Topic = async (effort) => {
  const problem = placementProblem('one core');
  // Before any server is started: each is to run where its clients do.
  if (problem === null) placeOnOneCore();
  const http = await openHttpServer();
  try {
    const rows = [
      ...(await rowsOf('stdio', stdioServer, stdioGoals, effort)),
      ...(await rowsOf('HTTP', http, httpGoals, effort)),
    ];
    if (effort.quick) return rows;
    return [...rows, ...(await rowsOf('stdio, a server that does nothing', bareServer, stdioGoals, effort))];
  } finally {
    await http.close();
  }
};

async function rowsOf(transport: string, server: EchoServer, goals: Goals, effort: Effort): Promise<Row[]> {
  const rows = await onOneCore(transport, server, goals, effort);
  return goals.apart === undefined ? rows : [...rows, await guestApart(transport, server, goals.apart, effort)];
}

async function onOneCore(transport: string, server: EchoServer, goals: Goals, effort: Effort): Promise<Row[]> {
  const one = textOf(`${transport}, one at a time`, 'one core', BARE, goals.one);
  const hop = textOf(`${transport}, one at a time`, 'one core', HOPPING, goals.hopping);
  const all = `${transport}, ${SUBMITTED} submitted, all in flight on both sides, a call`;
  const many = textOf(all, 'one core', BARE, goals.submitted);
  const problem = placementProblem('one core');
  const processor = (times: ProcessorTimes) =>
    processorRows('mcp', `${transport}, one at a time, one core`, BARE, goals.host, times);
  if (problem !== null) {
    return [...[one, hop, many].map((text) => notMeasured(text, problem)), ...processor({ problem })];
  }

  const { ours, bare, hopping, close } = await openSides(server);
  try {
    const rounds = roundsOf(effort);
    const counted = countedSteps(ours.pid, (count) => ours.steps(count));
    const countedBare = countedHere(bare(1));
    const alone = await stepInTurns(counted.steps, countedBare.steps, rounds);
    const times = { ours: counted.perStep(), yardstick: countedBare.perStep() };
    const behindHop = await stepInTurns((count) => ours.steps(count), hopping.steps, rounds);
    const atOnce = await stepInTurns((count) => ours.steps(count, BATCH), bare(SUBMITTED), {
      rounds: rounds.rounds,
      steps: effort.of(2, 6),
      warmUp: effort.of(10, 200),
    });
    return [
      rowWithRatios(one, inMicroseconds(alone)),
      rowWithRatios(hop, inMicroseconds(behindHop)),
      rowWithRatios(many, perCall(inMicroseconds(atOnce))),
      ...processor(times),
    ];
  } finally {
    await close();
  }
}

async function guestApart(transport: string, server: EchoServer, wanted: Goal, effort: Effort): Promise<Row> {
  const text = textOf(`${transport}, one at a time`, 'guest apart', HOPPING, wanted);
  const problem = placementProblem('guest apart');
  if (problem !== null) return notMeasured(text, problem);
  const { ours, hopping, close } = await openSides(server);
  try {
    await ours.steps(1); // its threads are there
    placeGuestApart(ours.pid);
    placeGuestApart(process.pid);
    const samples = await stepInTurns((count) => ours.steps(count), hopping.steps, roundsOf(effort));
    return rowWithRatios(text, inMicroseconds(samples));
  } finally {
    await close();
  }
}

interface Sides {
  readonly ours: GuestProcess;
  /** So many calls at once by the bare client. */
  readonly bare: (atOnce: number) => Stepper;
  readonly hopping: { readonly steps: Stepper };
  close(): Promise<void>;
}

async function openSides(server: EchoServer): Promise<Sides> {
  const ours = new GuestProcess({
    wasm: callingGuest(server),
    flags: (folder) => mcpFlags(folder, [allInFlight(server.record)]),
  });
  const client = await server.connect();
  const hopping = openBareWorker((args) => callBareByText(client, server, args), [ARGUMENTS]);
  await hopping.steps(1); // its thread is there
  return {
    ours,
    bare: (atOnce) => stepper(() => Promise.all(Array.from({ length: atOnce }, () => callBare(client, server)))),
    hopping,
    close: async () => {
      await hopping.close();
      await client.close();
      await ours.close();
    },
  };
}

/** The bare client knows no window, so ours is as large as what is submitted. */
const allInFlight = (record: object) => ({ ...record, budgets: { max_concurrency: SUBMITTED } });

const roundsOf = (effort: Effort) => ({
  rounds: effort.of(7, 41),
  steps: effort.of(20, 100),
  warmUp: effort.of(300, 4_000),
});

const perCall = ({ ours, yardstick, ratios }: SteppedSamples): SteppedSamples => ({
  ours: ours.map((time) => time / SUBMITTED),
  yardstick: yardstick.map((time) => time / SUBMITTED),
  ratios,
});

const textOf = (name: string, placement: Placement, yardstickName: string, wanted: Goal | null): RowText => ({
  topic: 'mcp',
  name: `${name}, ${placement}`,
  unit: 'µs',
  yardstickName,
  goal: wanted,
});
