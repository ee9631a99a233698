// The yardstick of the tool loop, in a process of its own as spear-run is: the loop as one writes it without Spear. Plain
// undici asks the model, its tool calls go to the bare client, their results into the next request; or each request stands
// behind a bare thread hop, as a guest has to be for a tool of its own. Told the turn, then asked for numbers of turns.
import { deepStrictEqual } from 'node:assert';
import type { Client } from '@modelcontextprotocol/client';
import { Agent, request } from 'undici';
import { stepper } from '../measure/stepped.ts';
import { openBareWorker } from './bare-worker-host.ts';
import { callBareByText, stdioServer } from './echo-servers.ts';

export interface PlainTurn {
  readonly url: string;
  /** What the guest's host has sent in this turn: the same is to be sent here. */
  readonly bodies: readonly string[];
  /** Whether the tools are of the MCP server; otherwise there is one, which always gives `toolResult`. */
  readonly usesMcp: boolean;
  readonly toolResult: string;
  readonly behindHops: boolean;
}

interface Asked {
  readonly messages: readonly object[];
}

interface ToolCall {
  readonly id: string;
  readonly function: { readonly arguments: string };
}

interface AssistantMessage {
  readonly content: string | null;
  readonly tool_calls?: readonly ToolCall[];
}

const dispatcher = new Agent();
const headers = { 'content-type': 'application/json', accept: 'application/json' };
let turn: PlainTurn | undefined;
/** The first request of a turn. */
let first: Asked = { messages: [] };
let client: Client | undefined;
let hopping: ReturnType<typeof openBareWorker> | undefined;
let lastBody = '';

async function post(asked: Asked): Promise<AssistantMessage> {
  const { url } = turn as PlainTurn;
  lastBody = JSON.stringify(asked);
  const { statusCode, body: answer } = await request(url, { method: 'POST', headers, body: lastBody, dispatcher });
  const parsed = (await answer.json()) as { choices?: [{ message: AssistantMessage }] };
  if (statusCode !== 200 || parsed.choices === undefined) throw new Error(`the endpoint answered ${statusCode}`);
  return parsed.choices[0].message;
}

function resultOf(call: ToolCall): Promise<string> | string {
  return client === undefined
    ? (turn as PlainTurn).toolResult
    : callBareByText(client, stdioServer, call.function.arguments);
}

/** The request that follows, with the answer and the results of the calls in it. */
const followUp = ({ content, tool_calls }: AssistantMessage, results: readonly string[]): Asked => ({
  ...first,
  messages: [
    ...first.messages,
    { role: 'assistant', content, tool_calls },
    ...results.map((result, at) => ({ role: 'tool', tool_call_id: tool_calls?.[at]?.id, content: result })),
  ],
});

async function takeTurn(): Promise<void> {
  const answer = await post(first);
  const results = await Promise.all((answer.tool_calls ?? []).map(resultOf));
  await post(followUp(answer, results));
}

const steps = stepper(takeTurn);

/** A worker asks for the first request, gets the tool's arguments, and gives its result: there and back for each. */
function openHops({ toolResult }: PlainTurn): ReturnType<typeof openBareWorker> {
  let answer: AssistantMessage | null = null;
  const question = 'And in Lisbon?';
  return openBareWorker(
    async (said) => {
      if (answer === null) {
        answer = await post({ ...first, messages: [{ role: 'user', content: said }] });
        return answer.tool_calls?.[0]?.function.arguments;
      }
      const last = await post(followUp(answer, [said]));
      answer = null;
      return JSON.stringify(last);
    },
    [question, toolResult],
  );
}

const HOPS = 2;

async function hops(turns: number): Promise<number[]> {
  const times = (await hopping?.steps(turns * HOPS)) ?? [];
  return Array.from({ length: turns }, (_, at) => (times[at * HOPS] ?? 0) + (times[at * HOPS + 1] ?? 0));
}

/** A request, and in it the results of tools, whatever the order of their fields. */
const saidIn = (body: string): unknown =>
  JSON.parse(body, (key, value) => (key === 'content' && value?.[0] === '{' ? JSON.parse(value) : value));

process.on('message', async (message: PlainTurn | number) => {
  if (typeof message === 'number') {
    process.send?.(await (hopping === undefined ? steps : hops)(message));
    return;
  }
  turn = message;
  first = JSON.parse(turn.bodies[0] ?? '');
  if (turn.usesMcp) client = await stdioServer.connect();
  await takeTurn();
  deepStrictEqual(saidIn(lastBody), saidIn(turn.bodies.at(-1) ?? ''));
  if (turn.behindHops) hopping = openHops(turn);
  process.send?.('ready');
});

process.on('disconnect', async () => {
  await client?.close();
  await hopping?.close();
  process.exit();
});
