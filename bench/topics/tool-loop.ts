import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { ARGUMENTS, SERVER_ID, stdioServer, TOOL } from '../guests/echo-servers.ts';
import { type GuestFolder, GuestProcess } from '../guests/guest-process.ts';
import { DROP, mustBe } from '../guests/instructions.ts';
import { type ModelToolCall, openModelEndpoint } from '../guests/model-endpoint.ts';
import type { PlainTurn } from '../guests/plain-client.ts';
import { type Steps, steppingGuest } from '../guests/stepping-guest.ts';
import { goal, type Row, rowWithRatios } from '../measure/row.ts';
import { inMicroseconds, type Stepper, stepInTurns } from '../measure/stepped.ts';
import { hostConfig, mcpFlags } from './mcp.ts';
import type { Effort, Topic } from './topic.ts';

const PARALLEL_CALLS = 8;
const AUTO_TOOL_CALL = 2;
const SET_PARAM = 1;
const GUEST_TOOL = 'weather';
const ARENA = { tool_arena_ptr: 2_200_000, tool_arena_len: 65_536 };

interface Variant {
  readonly name: string;
  readonly calls: readonly ModelToolCall[];
  readonly mcpCalls: number;
}

const cause = 'four hops between threads for a guest tool, the checks and the trail of each MCP call, and the history';

const encoded = (name: string) => Buffer.from(name).toString('base64url');

const variants: readonly Variant[] = [
  { name: 'a turn with one guest tool', calls: [{ name: GUEST_TOOL, arguments: '{"city":"Lisbon"}' }], mcpCalls: 0 },
  {
    name: `a turn with ${PARALLEL_CALLS} parallel MCP calls`,
    calls: Array.from({ length: PARALLEL_CALLS }, () => ({
      name: `mcp__${encoded(SERVER_ID)}__${encoded(TOOL)}`,
      arguments: ARGUMENTS,
    })),
    mcpCalls: PARALLEL_CALLS,
  },
];

/** One send with AUTO_TOOL_CALL: the model asks for tools, gets their results, answers. */
export const topic: Topic = async (effort) => {
  const rows: Row[] = [];
  for (const variant of variants) rows.push(await measure(variant, effort));
  return rows;
};

async function measure({ name, calls, mcpCalls }: Variant, effort: Effort): Promise<Row> {
  const endpoint = await openModelEndpoint(calls);
  const flags = (folder: GuestFolder) => {
    const backend = `[backends.bench]\nkind = "openai"\nbase_url = "${endpoint.baseUrl}"\nmodel = "bench"\n`;
    const records = mcpCalls > 0 ? [stdioServer.record] : [];
    return records.length > 0
      ? mcpFlags(folder, records, backend)
      : ['--config', hostConfig(folder, backend), '--audit', `${folder.path}/audit.jsonl`];
  };
  const tool = '{"temperature_c":21}';
  const ours = new GuestProcess({ wasm: steppingGuest({ step: (steps) => send(steps, mcpCalls === 0), tool }), flags });
  try {
    await ours.steps(1); // shows what is sent
    const bare = await openPlainClient({
      url: `${endpoint.baseUrl}/chat/completions`,
      bodies: endpoint.bodies(),
      mcpCalls,
    });
    try {
      const rounds = { rounds: effort.of(7, 41), steps: effort.of(12, 40), warmUp: effort.of(80, 400) };
      const samples = inMicroseconds(await stepInTurns((count) => ours.steps(count), bare.steps, rounds));
      const beside = mcpCalls > 0 ? 'plain undici + bare SDK client' : 'plain undici, the same requests';
      const text = {
        topic: 'tool-loop',
        name,
        unit: 'µs',
        yardstickName: beside,
        goal: goal.addedAtMost(300, 'µs'),
        cause,
      };
      return rowWithRatios({ ...text, unit: 'µs' }, samples);
    } finally {
      await bare.close();
    }
  } finally {
    await ours.close();
    await endpoint.close();
  }
}

/** A session from its first message to its end. */
function send(steps: Steps, hasTool: boolean): number[] {
  const param = (key: string, value: number) => steps.argument(JSON.stringify({ key, value }));
  const definition = JSON.stringify({ name: GUEST_TOOL, description: 'The weather.', parameters: { type: 'object' } });
  const set = Object.entries(ARENA).map(([key, value]) => param(key, value));
  const session = steps.get(0);
  const tool = [
    ...set.flatMap((arg) => mustBe(steps.call('cchat_ctl', session, SET_PARAM, ...arg), 0)),
    ...mustBe(steps.call('cchat_write_fn', session, steps.toolSlot, ...steps.text(definition)), 0),
  ];
  return [
    ...steps.set(0, steps.call('cchat_create')),
    ...(hasTool ? tool : []),
    ...mustBe(steps.call('cchat_write_msg', session, ...steps.text('user'), ...steps.text('And in Lisbon?')), 0),
    ...steps.set(1, steps.call('cchat_send', session, AUTO_TOOL_CALL)),
    ...[...steps.setCapacity, ...steps.call('cchat_recv', steps.get(1), ...steps.out), ...DROP],
    ...[...steps.call('cchat_close', steps.get(1)), ...DROP],
    ...[...steps.call('cchat_close', session), ...DROP],
  ];
}

async function openPlainClient(turn: PlainTurn): Promise<{ steps: Stepper; close(): Promise<void> }> {
  const child = fork(fileURLToPath(new URL('../guests/plain-client.ts', import.meta.url)));
  const ended = once(child, 'exit');
  const ask = async (message: PlainTurn | number) => {
    const answer = Promise.withResolvers<unknown>();
    child.once('message', answer.resolve);
    child.send(message);
    return Promise.race([
      answer.promise,
      ended.then(([code]) => Promise.reject(new Error(`the plain client: ${code}`))),
    ]);
  };
  await ask(turn);
  return {
    steps: async (count) => (await ask(count)) as number[],
    close: async () => {
      child.disconnect();
      await ended;
    },
  };
}
