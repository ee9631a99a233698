// Agents at once, each on a thread of its own or all on shared ones, in a process of their own: `agents-process.ts shared|thread COUNT`.
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type * as Library from '../../src/index.ts';

export interface AgentRuns {
  /** From the first start to the last end. */
  readonly ms: number;
  /** The most that the process had while they ran. */
  readonly bytes: number;
}

const [kind, countText] = process.argv.slice(2);
const count = Number(countText);
const MODEL_MS = 50;
const TOOL_TURNS = 2;
const LOOK_MS = 20;

const { GuestThreads, openMcp, runGuest } = (await import(
  new URL('../../dist/index.js', import.meta.url).href
)) as typeof Library;
const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));

/** Calls the tool in its first turns, then says something; a turn takes its time. */
const backend: Library.ChatBackend = {
  name: 'slow',
  model: 'slow',
  complete: async ({ messages, tools }) => {
    await wait(MODEL_MS);
    const turn = messages.filter(({ role }) => role === 'tool').length;
    const [{ function: echo }] = tools as unknown as [{ function: { name: string } }];
    const call = {
      id: `c${turn}`,
      type: 'function',
      function: { name: echo.name, arguments: '{"message":"and again"}' },
    };
    const message =
      turn < TOOL_TURNS
        ? { role: 'assistant', content: null, tool_calls: [call] }
        : { role: 'assistant', content: 'done' };
    return { choices: [{ index: 0, message, finish_reason: turn < TOOL_TURNS ? 'tool_calls' : 'stop' }] };
  },
  close: async () => {},
};

await using mcp = await openMcp({
  servers: [
    {
      name: 'echo',
      transport: { kind: 'stdio', command: process.execPath, args: [fixture('mcp-servers/tiny.mjs')] },
    },
  ],
  task: { config: { 'mcp.enabled': true, 'mcp.default_server_ids': ['echo'], 'mcp.tool_allowlist': ['echo'] } },
});
await using threads = new GuestThreads({ threads: 2 });
const run = async () => {
  const limits = { turn_ms: 60_000, timeout_ms: 600_000 };
  const shared = kind === 'shared' ? { threads } : {};
  const result = await runGuest({ wasm: fixture('c/files.wasm'), backend, mcp, output: () => {}, limits, ...shared });
  if (result.exitCode !== 0 || result.chat.toolCalls !== TOOL_TURNS) {
    throw new Error(`an agent ended by ${result.reason} ${result.exitCode}, tools ${result.chat.toolCalls}`);
  }
};
await run();
let bytes = 0;
const looking = setInterval(() => {
  bytes = Math.max(bytes, process.memoryUsage.rss());
}, LOOK_MS);
const started = performance.now();
await Promise.all(Array.from({ length: count }, run));
const found: AgentRuns = { ms: performance.now() - started, bytes };
clearInterval(looking);
process.send?.(found, undefined, {}, () => process.exit());
