import {
  ARGUMENTS,
  callBare,
  type EchoServer,
  openHttpServer,
  RESULT,
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
/** Where the guest keeps the descriptors of what it has submitted. */
const CALL_FDS = 512;

const throughput: Goal = { text: 'throughput ≥ 0.9', met: ({ ratio }) => ratio <= 1 / 0.9 };

/** A whole governed call: guest → policy → validation → budget → audit → server → guest. */
export const topic: Topic = async (effort) => {
  const http = await openHttpServer();
  try {
    return [...(await rowsOf('stdio', stdioServer, effort)), ...(await rowsOf('HTTP', http, effort))];
  } finally {
    await http.close();
  }
};

async function rowsOf(transport: string, server: EchoServer, effort: Effort): Promise<Row[]> {
  const rounds = effort.of(15, 61);
  const one = await measure(server, oneByOne, 1, { rounds, steps: effort.of(40, 100), warmUp: effort.of(300, 1_000) });
  const many = await measure(server, submitted, SUBMITTED, { rounds, steps: effort.of(3, 6), warmUp: 30 });
  const perCall = (samples: number[]) => samples.map((time) => time / SUBMITTED);
  return [
    rowWithRatios(textOf(`${transport}, one at a time`, goal.addedAtMost(100, 'µs')), one),
    rowWithRatios(textOf(`${transport}, ${SUBMITTED} submitted, a call`, throughput), {
      ours: perCall(many.ours),
      yardstick: perCall(many.yardstick),
      ratios: many.ratios,
    }),
  ];
}

const textOf = (name: string, wanted: Goal) =>
  ({ topic: 'mcp', name, unit: 'µs', yardstickName: 'bare SDK client', goal: wanted }) as const;

async function measure(
  server: EchoServer,
  step: (steps: Steps) => number[],
  atOnce: number,
  rounds: Parameters<typeof stepInTurns>[2],
): Promise<SteppedSamples> {
  const wasm = steppingGuest({
    setup: (steps) => steps.set(0, steps.call('mcp_open', ...steps.text(SERVER_ID))),
    step,
  });
  const ours = new GuestProcess({ wasm, flags: (folder) => mcpFlags(folder, [server.record]) });
  const client = await server.connect();
  try {
    const bare = stepper(() => Promise.all(Array.from({ length: atOnce }, () => callBare(client))));
    return inMicroseconds(await stepInTurns((count) => ours.steps(count), bare, rounds));
  } finally {
    await client.close();
    await ours.close();
  }
}

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

function oneByOne(steps: Steps): number[] {
  const [tool, args] = [steps.text(TOOL), steps.text(ARGUMENTS)];
  const called = steps.call('mcp_call_tool', steps.get(0), ...tool, ...args, ...steps.out);
  return [...steps.setCapacity, ...mustBe(called, RESULT.length)];
}

function submitted(steps: Steps): number[] {
  const [tool, args] = [steps.text(TOOL), steps.text(ARGUMENTS)];
  const places = Array.from({ length: SUBMITTED }, (_, index) => CALL_FDS + index * 4);
  const submit = (place: number) => storeAt(place, steps.call('mcp_submit', steps.get(0), ...tool, ...args));
  const take = (place: number) => [
    ...steps.setCapacity,
    ...mustBe(steps.call('mcp_result', loadFrom(place), ...steps.out), RESULT.length),
    ...[...steps.call('mcp_close', loadFrom(place)), ...DROP],
  ];
  return [...places.flatMap(submit), ...places.flatMap(take)];
}
