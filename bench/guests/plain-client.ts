// The yardstick of the tool loop, in a process of its own as spear-run is: the same requests by plain undici, and the
// same MCP calls by the bare client between them; or each request behind a bare thread hop, as a guest has to be for a
// tool of its own. Told what to send, then asked for numbers of turns.
import type { Client } from '@modelcontextprotocol/client';
import { Agent, request } from 'undici';
import { stepper } from '../measure/stepped.ts';
import { openBareWorker } from './bare-worker-host.ts';
import { callBare, stdioServer } from './echo-servers.ts';

export interface PlainTurn {
  readonly url: string;
  readonly bodies: readonly string[];
  /** Between the first request and the second. */
  readonly mcpCalls: number;
  readonly behindHops: boolean;
}

const dispatcher = new Agent();
const headers = { 'content-type': 'application/json', accept: 'application/json' };
let turn: PlainTurn | undefined;
let client: Client | undefined;
let hopping: ReturnType<typeof openBareWorker> | undefined;

async function post(url: string, body: string): Promise<void> {
  const { statusCode, body: answer } = await request(url, { method: 'POST', headers, body, dispatcher });
  const parsed = (await answer.json()) as { choices?: unknown };
  if (statusCode !== 200 || parsed.choices === undefined) throw new Error(`the endpoint answered ${statusCode}`);
}

const steps = stepper(async () => {
  const { url, bodies, mcpCalls } = turn as PlainTurn;
  const [first = '', ...rest] = bodies;
  await post(url, first);
  const bare = client;
  if (bare) await Promise.all(Array.from({ length: mcpCalls }, () => callBare(bare, stdioServer)));
  for (const body of rest) await post(url, body);
});

/** A worker asks for one request after the other: there and back for each, as often as a turn with a guest tool. */
function openHops({ url, bodies }: PlainTurn): ReturnType<typeof openBareWorker> {
  let next = 0;
  return openBareWorker(() => post(url, bodies[next++ % bodies.length] ?? ''));
}

async function hops(turns: number): Promise<number[]> {
  const requests = turn?.bodies.length ?? 1;
  const times = (await hopping?.steps(turns * requests)) ?? [];
  const ofTurn = (at: number) => times.slice(at * requests, (at + 1) * requests).reduce((sum, ns) => sum + ns, 0);
  return Array.from({ length: turns }, (_, at) => ofTurn(at));
}

process.on('message', async (message: PlainTurn | number) => {
  if (typeof message === 'number') {
    process.send?.(await (hopping === undefined ? steps : hops)(message));
    return;
  }
  turn = message;
  if (turn.behindHops) hopping = openHops(turn);
  if (turn.mcpCalls > 0) client = await stdioServer.connect();
  process.send?.('ready');
});

process.on('disconnect', async () => {
  await client?.close();
  await hopping?.close();
  process.exit();
});
