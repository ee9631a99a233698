import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Stepper } from '../measure/stepped.ts';
import { stdioServer } from './echo-servers.ts';
import { type GuestFolder, GuestProcess, type SlowWrites } from './guest-process.ts';
import { DROP, mustBe } from './instructions.ts';
import { hostConfig, mcpFlags } from './mcp-guest.ts';
import { type ModelToolCall, openModelEndpoint } from './model-endpoint.ts';
import type { PlainTurn } from './plain-client.ts';
import { type Steps, steppingGuest } from './stepping-guest.ts';

const AUTO_TOOL_CALL = 2;
const SET_PARAM = 1;
export const guestToolCall: ModelToolCall = { name: 'weather', arguments: '{"city":"Lisbon"}' };
const ARENA = { tool_arena_ptr: 2_200_000, tool_arena_len: 65_536 };

/** A process that takes the turn over and over. */
export interface TurnTaker {
  readonly pid: number;
  readonly steps: Stepper;
}

/** A model that asks for tools once and then answers: asked by a guest, and by a plain client. */
export interface ModelTurn {
  readonly ours: TurnTaker;
  readonly bare: TurnTaker;
  /** The plain client behind bare thread hops. */
  openHopping(): Promise<TurnTaker & { close(): Promise<void> }>;
  close(): Promise<void>;
}

/** Without MCP calls the tool is one of the guest. */
export async function openModelTurn(
  calls: readonly ModelToolCall[],
  mcpCalls: number,
  slow: SlowWrites | null = null,
): Promise<ModelTurn> {
  const endpoint = await openModelEndpoint(calls);
  const flags = (folder: GuestFolder) => {
    const backend = `[backends.bench]\nkind = "openai"\nbase_url = "${endpoint.baseUrl}"\nmodel = "bench"\n`;
    return mcpCalls > 0
      ? mcpFlags(folder, [stdioServer.record], backend)
      : ['--config', hostConfig(folder, backend), '--audit', `${folder.path}/audit.jsonl`];
  };
  const tool = '{"temperature_c":21}';
  const ours = new GuestProcess({
    wasm: steppingGuest({ step: (steps) => send(steps, mcpCalls === 0), tool }),
    flags,
    slow,
  });
  const close = async () => {
    await ours.close();
    await endpoint.close();
  };
  try {
    await ours.steps(1); // shows what is sent
    const url = `${endpoint.baseUrl}/chat/completions`;
    const plain = { url, bodies: endpoint.bodies(), usesMcp: mcpCalls > 0, toolResult: tool };
    const bare = await openPlainClient({ ...plain, behindHops: false });
    return {
      ours: { pid: ours.pid, steps: (count) => ours.steps(count) },
      bare,
      openHopping: () => openPlainClient({ ...plain, behindHops: true }),
      close: async () => {
        await bare.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A session from its first message to its end. */
function send(steps: Steps, hasTool: boolean): number[] {
  const param = (key: string, value: number) => steps.argument(JSON.stringify({ key, value }));
  const definition = JSON.stringify({
    name: guestToolCall.name,
    description: 'The weather.',
    parameters: { type: 'object' },
  });
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

async function openPlainClient(turn: PlainTurn): Promise<TurnTaker & { close(): Promise<void> }> {
  const child = fork(fileURLToPath(new URL('./plain-client.ts', import.meta.url)));
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
    pid: child.pid ?? 0,
    steps: async (count) => (await ask(count)) as number[],
    close: async () => {
      child.disconnect();
      await ended;
    },
  };
}
