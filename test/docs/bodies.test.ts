import { expect, it } from 'vitest';
import { toolError } from '../../src/agent/chat/backend.ts';
import type { ScriptTurn } from '../../src/agent/chat/backends/script-schema.ts';
import { McpTimeoutError } from '../../src/agent/mcp/client/errors.ts';
import { convertError, convertResult } from '../../src/agent/mcp/client/tool-result.ts';
import { canonicalJson, type JsonObject, type JsonValue } from '../../src/base/json.ts';
import type { CallKind } from '../../src/runtime/port/policy-layers.ts';
import { fdCommand, fdGet, HAND_BACK, METRICS, newSession, recv, send, writeTool } from '../support/chat-calls.ts';
import type { TestGuest } from '../support/test-guest.ts';
import { useGuests } from '../support/use-guest.ts';
import { readPage } from './pages.ts';

const abi = readPage('docs/abi.md');

/** The examples of the page by their names. */
const examples = new Map(
  [...abi.text.matchAll(/<!-- example: ([\w-]+) -->\n\n```json\n(.*?)^```$/gms)].map(([, name = '', json = '']) => [
    name,
    JSON.parse(json) as JsonValue,
  ]),
);

const openGuest = useGuests();

const sum = { id: 'call_1', name: 'sum', arguments: { a: 2, b: 40 } };
const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
const answers: readonly ScriptTurn[] = [{ reply: { content: '42', usage } }];

/** A guest whose model answers so, and the response of its first send. */
async function sendTo(turns: readonly ScriptTurn[], flags = 0): Promise<{ guest: TestGuest; response: number }> {
  const guest = await openGuest({ turns });
  const fd = await newSession(guest, 'What is 2 + 40?');
  await writeTool(guest, fd, 'sum', -1);
  return { guest, response: await send(guest, fd, flags) };
}

async function bodyOf(turns: readonly ScriptTurn[], flags = 0): Promise<string> {
  const { guest, response } = await sendTo(turns, flags);
  return recv(guest, response);
}

function mcpResult(result: JsonObject, kind: CallKind = 'tool'): string {
  const redact = (text: string) => text;
  return convertResult(result, {
    kind,
    serverId: 'weather',
    toolName: 'read',
    maxOutputBytes: 4096,
    outputProblem: null,
    keepsMeta: false,
    redact,
    redactContent: redact,
  }).json;
}

/** What the code makes, by the name of the example. */
const made: Readonly<Record<string, () => Promise<string> | string>> = {
  answer: () => bodyOf(answers),
  'handed-back': () => bodyOf([{ reply: { tool_calls: [sum], usage } }], HAND_BACK),
  error: () => bodyOf([{ error: { status: 429, message: 'slow down' } }]),
  'tool-error': () => canonicalJson(toolError('tool_exec_failed', 'tool rc: -5')),
  'mcp-result': () => mcpResult({ content: [{ type: 'text', text: '17 °C' }], structuredContent: { celsius: 17 } }),
  'mcp-failure': () => convertError(new McpTimeoutError('weather', 8000, 'tool "read"'), 4096).json,
  'mcp-tool-error': () => mcpResult({ content: [{ type: 'text', text: 'no such city' }], isError: true }),
  'mcp-resource': () => {
    const contents = [{ uri: 'notes://notes/roadmap', mimeType: 'text/plain', text: 'Ship it in May.' }];
    return mcpResult({ contents }, 'resource');
  },
  'mcp-prompt': () => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'Write a sad poem.' } }];
    return mcpResult({ description: 'a sad poem', messages }, 'prompt');
  },
  metrics: async () => {
    const { guest, response } = await sendTo(answers, METRICS);
    const metrics: JsonObject = JSON.parse(await fdGet(guest, response, fdCommand.GET_METRICS));
    return canonicalJson({ ...metrics, duration_ms: 0, model_ms: 0 });
  },
};

it.each(Object.keys(made))('the example "%s" of docs/abi.md is what the code makes', async (name) => {
  expect(await made[name]?.()).toBe(canonicalJson(examples.get(name) ?? null));
});

it('no example of docs/abi.md is unchecked', () => {
  // Lists are the results of mcp_list_tools and its like, which the tests of these calls compare.
  const lists = ['mcp-tools', 'mcp-resources', 'mcp-prompts'];
  expect([...examples.keys()].filter((name) => !lists.includes(name)).sort()).toEqual(Object.keys(made).sort());
});
