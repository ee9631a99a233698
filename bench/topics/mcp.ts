import { openBareWorker } from '../guests/bare-worker-host.ts';
import {
  ARGUMENTS,
  bareServer,
  callBare,
  type EchoServer,
  openHttpServer,
  resultOf,
  SERVER_ID,
  stdioServer,
  TOOL,
} from '../guests/echo-servers.ts';
import { type GuestFolder, GuestProcess } from '../guests/guest-process.ts';
import { DROP, loadFrom, mustBe, storeAt } from '../guests/instructions.ts';
import { type Steps, steppingGuest } from '../guests/stepping-guest.ts';
import { type Goal, goal, type Row, rowWithRatios } from '../measure/row.ts';
import { inMicroseconds, type SteppedSamples, stepInTurns, stepper } from '../measure/stepped.ts';
import type { Effort, Topic } from './topic.ts';

const SUBMITTED = 32;
/** The step that submits. */
const BATCH = 1;
/** What a guest on a thread of its own cannot do without: what is above it is policy, checks and the trail. */
const HOPPING = 'bare SDK client behind a bare thread hop';
/** Where the guest keeps the descriptors of what it has submitted. */
const CALL_FDS = 512;

const cause =
  'two hops between threads, policy, validation and two lines of the trail; three threads of ours and the server share the cores';

const throughput: Goal = { text: 'throughput ≥ 0.9', met: ({ ratio }) => ratio <= 1 / 0.9 };

/** A whole governed call: guest → policy → validation → budget → audit → server → guest. */
export const topic: Topic = async (effort) => {
  const http = await openHttpServer();
  try {
    const rows = [...(await rowsOf('stdio', stdioServer, effort)), ...(await rowsOf('HTTP', http, effort))];
    if (effort.quick) return rows;
    return [...rows, ...(await rowsOf('stdio server that does nothing', bareServer, effort)).map(withoutGoal)];
  } finally {
    await http.close();
  }
};

/** Such a server does not exist, but beside it nothing of our own cost is hidden. */
const withoutGoal = (row: Row): Row => ({ ...row, goal: null, ok: null, note: '' });

async function rowsOf(transport: string, server: EchoServer, effort: Effort): Promise<Row[]> {
  const expected = resultOf(server).length;
  const wasm = steppingGuest({
    setup: (steps) => steps.set(0, steps.call('mcp_open', ...steps.text(SERVER_ID))),
    step: oneByOne(expected),
    otherStep: submitted(expected),
  });
  const ours = new GuestProcess({ wasm, flags: (folder) => mcpFlags(folder, [server.record]) });
  const client = await server.connect();
  const bare = (atOnce: number) =>
    stepper(() => Promise.all(Array.from({ length: atOnce }, () => callBare(client, server))));
  try {
    const rounds = effort.of(7, 41);
    const one = await stepInTurns((count) => ours.steps(count), bare(1), {
      rounds,
      steps: effort.of(20, 100),
      warmUp: effort.of(300, 2_000),
    });
    const hopping = openBareWorker(() => callBare(client, server));
    const hops = await stepInTurns((count) => ours.steps(count), hopping.steps, {
      rounds,
      steps: effort.of(20, 100),
      warmUp: effort.of(100, 500),
    });
    await hopping.close();
    const many = await stepInTurns((count) => ours.steps(count, BATCH), bare(SUBMITTED), {
      rounds,
      steps: effort.of(2, 6),
      warmUp: effort.of(10, 30),
    });
    return [
      rowWithRatios(textOf(`${transport}, one at a time`, goal.addedAtMost(100, 'µs')), inMicroseconds(one)),
      rowWithRatios({ ...textOf(`${transport}, one at a time`, null), yardstickName: HOPPING }, inMicroseconds(hops)),
      rowWithRatios(textOf(`${transport}, ${SUBMITTED} submitted, a call`, throughput), perCall(inMicroseconds(many))),
    ];
  } finally {
    await client.close();
    await ours.close();
  }
}

const perCall = ({ ours, yardstick, ratios }: SteppedSamples): SteppedSamples => ({
  ours: ours.map((time) => time / SUBMITTED),
  yardstick: yardstick.map((time) => time / SUBMITTED),
  ratios,
});

const textOf = (name: string, wanted: Goal | null) =>
  ({ topic: 'mcp', name, unit: 'µs', yardstickName: 'bare SDK client', goal: wanted, cause }) as const;

/** MCP as a task has it by default, with its trail. */
export function mcpFlags(folder: GuestFolder, records: readonly object[], backend = ''): string[] {
  const ids = records.map((record) => (record as { server_id: string }).server_id);
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(ids) };
  const task = folder.file('task.json', { name: 'bench', config });
  for (const [index, record] of records.entries()) folder.file(`mcp.d/${ids[index]}.json`, record);
  const files = ['--task-config', task, '--config', hostConfig(folder, backend), '--mcp-dir', `${folder.path}/mcp.d`];
  return [...files, '--audit', `${folder.path}/audit.jsonl`];
}

/** Without its one line a node reaches no server on its own machine. */
export const hostConfig = (folder: GuestFolder, backend: string): string =>
  folder.file('host.toml', `[egress]\nallow_addresses = ["loopback"]\n${backend}`);

const oneByOne = (expected: number) => (steps: Steps) => {
  const [tool, args] = [steps.text(TOOL), steps.text(ARGUMENTS)];
  const called = steps.call('mcp_call_tool', steps.get(0), ...tool, ...args, ...steps.out);
  return [...steps.setCapacity, ...mustBe(called, expected)];
};

const submitted = (expected: number) => (steps: Steps) => {
  const [tool, args] = [steps.text(TOOL), steps.text(ARGUMENTS)];
  const places = Array.from({ length: SUBMITTED }, (_, index) => CALL_FDS + index * 4);
  const submit = (place: number) => storeAt(place, steps.call('mcp_submit', steps.get(0), ...tool, ...args));
  const take = (place: number) => [
    ...steps.setCapacity,
    ...mustBe(steps.call('mcp_result', loadFrom(place), ...steps.out), expected),
    ...[...steps.call('mcp_close', loadFrom(place)), ...DROP],
  ];
  return [...places.flatMap(submit), ...places.flatMap(take)];
};
