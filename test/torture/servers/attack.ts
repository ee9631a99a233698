import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { McpError } from '../../../src/agent/mcp/client/errors.ts';
import type { McpPool } from '../../../src/agent/mcp/client/pool.ts';
import type { McpServerRecord, McpTransport } from '../../../src/server/records/server.ts';
import { ended } from '../../agent/mcp/client/ended-call.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { httpBehaviours } from './http-behaviours.ts';
import { messageBehaviours } from './message-behaviours.ts';
import { stdioBehaviours } from './stdio-behaviours.ts';

export interface Attack {
  readonly behaviour: string;
  readonly transport: McpTransport;
  readonly seed: number;
}

export interface AttackEnd {
  /** Waits that went past their deadline, and how far. */
  readonly late: readonly { readonly what: string; readonly byMs: number }[];
  /** Calls that should have worked and came too late: the server had too little time, on a slow machine. */
  readonly starved: readonly string[];
  readonly failures: readonly string[];
}

export const CONNECT_MS = 1_500;
export const LIST_MS = 1_000;
export const TOOL_MS = 700;
/** Arguments are checked to the end before a call is cancelled: two of them may wait for the thread that does it. */
export const CHECK_MS = 200;
const CANCEL_AFTER_MS = 100;
/** What never comes back is a hang; it is given up so far past its deadline. A server that means well has as long. */
const HANGS_MS = 20_000;

export const behavioursOf = (transport: McpTransport): string[] => [
  ...Object.keys(messageBehaviours),
  ...Object.keys(transport === 'stdio' ? stdioBehaviours : httpBehaviours),
];

/** Whether calls have to work all the same; these get time enough for it. */
const isFine = (name: string) => (messageBehaviours[name] ?? stdioBehaviours[name])?.fine === true;

const program = fileURLToPath(new URL('./hostile-stdio.ts', import.meta.url));

export function recordOf({ behaviour, transport, seed }: Attack, port: number, marker: string): McpServerRecord {
  const budgets = isFine(behaviour)
    ? { connect_timeout_ms: HANGS_MS, tool_timeout_ms: HANGS_MS }
    : { connect_timeout_ms: CONNECT_MS, tool_timeout_ms: TOOL_MS };
  const fields = { transport, budgets: { ...budgets, max_concurrency: 2 } };
  if (transport === 'stdio') {
    const stdio = { command: process.execPath, args: [program, behaviour, String(seed)], env: { MARKER: marker } };
    return sampleRecord(`hostile-${seed}`, { ...fields, stdio });
  }
  const kind = transport === 'streamable_http' ? 'mcp' : 'sse';
  const url = `http://127.0.0.1:${port}/${encodeURIComponent(behaviour)}/${seed}/${kind}`;
  return sampleRecord(`hostile-${seed}`, { ...fields, stdio: undefined, http: { url } });
}

/** Uses one hostile server in every way there is, then lets go of it. */
export async function attack(given: Attack, pool: McpPool, record: McpServerRecord): Promise<AttackEnd> {
  const { connect_timeout_ms: connectMs, tool_timeout_ms: toolMs } = record.budgets;
  /** A call waits for a connection, for the list of tools and for its answer. */
  const callMs = connectMs + LIST_MS + toolMs;
  const failures: string[] = [];
  const starved: string[] = [];
  const late: { what: string; byMs: number }[] = [];
  const about = `${given.transport}, ${given.behaviour} (case ${given.seed})`;
  const within = async <T>(what: string, deadlineMs: number, work: Promise<T>): Promise<T | null> => {
    const started = performance.now();
    const hung = sleep(deadlineMs + HANGS_MS, 'hung' as const, { ref: false });
    const ended = await Promise.race([work, hung]);
    const byMs = performance.now() - started - deadlineMs;
    if (byMs > 0) late.push({ what: `${about}: ${what}, which had ${deadlineMs} ms`, byMs });
    return ended === 'hung' ? null : (ended as T);
  };
  const call = async (message: string, signal?: AbortSignal) => {
    const { json } = await ended(pool, record, { tool: 'echo', args: { message }, owner: 'guest' }, signal);
    const answer = JSON.parse(json) as { content?: { text: string }[]; error?: { code: string } };
    return answer.error ? { code: answer.error.code } : { text: answer.content?.[0]?.text };
  };

  const listed = pool.listTools(record).catch((error: unknown) => {
    if (!(error instanceof McpError)) failures.push(`${about}: its list failed with ${String(error)}`);
    return null;
  });
  await within('its list', connectMs + LIST_MS, listed);
  const abort = new AbortController();
  const cancelled = call('cancelled', abort.signal);
  const calls = ['one', 'two'].map((message) => within('a call', 2 * callMs, call(message)));
  await sleep(CANCEL_AFTER_MS);
  abort.abort();
  await within('a cancelled call', 2 * CHECK_MS, cancelled);
  const answers = await Promise.all(calls);
  if (isFine(given.behaviour)) {
    const texts = answers.map((answer) => answer?.text ?? answer?.code);
    const told = `${about}: calls that should have worked gave ${texts.join(', ')}`;
    if (texts.includes('mcp_timeout')) starved.push(told);
    else if (texts.join() !== 'one,two') failures.push(told);
  }
  await within('one more call', callMs, call('again'));
  const snapshot = { epoch: '', revision: 1, records: new Map() };
  pool.applyChange({ snapshot, upserted: [], deleted: [record.server_id] });
  return { late, starved, failures };
}
