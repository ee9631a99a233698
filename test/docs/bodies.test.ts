import { expect, it } from 'vitest';
import { canonicalJson, type JsonObject, type JsonValue } from '../../src/base/json.ts';
import type { ChatBackend } from '../../src/chat/backend.ts';
import { BackendFailures } from '../../src/chat/backends/failures.ts';
import { toolError } from '../../src/chat/error-body.ts';
import { ChatHistory } from '../../src/chat/history.ts';
import { noInjectedTools } from '../../src/chat/injected-tools.ts';
import { HAND_BACK, runSend, type SendOutcome } from '../../src/chat/tool-loop.ts';
import { McpTimeoutError } from '../../src/pool/errors.ts';
import { convertError, convertResult } from '../../src/pool/tool-result.ts';
import { readPage } from './pages.ts';

const abi = readPage('docs/abi.md');

/** The examples of the page by their names. */
const examples = new Map(
  [...abi.text.matchAll(/<!-- example: ([\w-]+) -->\n\n```json\n(.*?)^```$/gms)].map(([, name = '', json = '']) => [
    name,
    JSON.parse(json) as JsonValue,
  ]),
);

const nobody = () => {};
const observer = { toolStarted: nobody, toolFinished: nobody, limitReached: nobody, failed: nobody };

/** One send to a backend that answers so. */
async function sendTo(complete: ChatBackend['complete'], flags = 0): Promise<SendOutcome> {
  const history = new ChatHistory();
  history.apply({
    messages: [['user', 'What is 2 + 40?']],
    tools: [[-1, '{"name":"sum"}']],
    toolResults: [],
    params: [],
  });
  const backend: ChatBackend = { name: 'main', model: 'm-large', complete, close: async () => {} };
  const ports = {
    backend: async () => backend,
    callGuestTool: async () => ({ rc: 0, content: '' }),
    inject: async () => noInjectedTools,
    observer,
  };
  return runSend(history, flags, ports, new AbortController().signal);
}

const textOf = ({ body }: SendOutcome): string => Buffer.from(body).toString();

const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };

function completion(message: JsonObject, finish: string): JsonObject {
  return { choices: [{ index: 0, finish_reason: finish, message: { role: 'assistant', ...message } }] };
}

const plain = async () => ({ ...completion({ content: '42' }, 'stop'), usage });

const sum = { id: 'call_1', type: 'function', function: { name: 'sum', arguments: '{"a":2,"b":40}' } };

function mcpResult(result: JsonObject): string {
  const redact = (text: string) => text;
  return convertResult(result, {
    serverId: 'weather',
    toolName: 'read',
    maxOutputBytes: 4096,
    outputProblem: null,
    redact,
    redactContent: redact,
  }).json;
}

/** What the code makes, by the name of the example. */
const made: Readonly<Record<string, () => Promise<string> | string>> = {
  answer: async () => textOf(await sendTo(plain)),
  'handed-back': async () =>
    textOf(await sendTo(async () => completion({ content: null, tool_calls: [sum] }, 'tool_calls'), HAND_BACK)),
  error: async () =>
    textOf(
      await sendTo(async () => {
        throw new BackendFailures('main').refused(429, 'slow down');
      }),
    ),
  'tool-error': () => canonicalJson(toolError('tool_exec_failed', 'tool rc: -5')),
  'mcp-result': () => mcpResult({ content: [{ type: 'text', text: '17 °C' }], structuredContent: { celsius: 17 } }),
  'mcp-failure': () => convertError(new McpTimeoutError('weather', 8000, 'tool "read"'), 4096).json,
  'mcp-tool-error': () => mcpResult({ content: [{ type: 'text', text: 'no such city' }], isError: true }),
  metrics: async () => {
    const { metrics } = await sendTo(plain);
    return canonicalJson({ ...JSON.parse(metrics.toJson(0)), duration_ms: 0, model_ms: 0 });
  },
};

it.each(Object.keys(made))('the example "%s" of docs/abi.md is what the code makes', async (name) => {
  expect(await made[name]?.()).toBe(canonicalJson(examples.get(name) ?? null));
});

it('no example of docs/abi.md is unchecked', () => {
  // The list of tools is the result of mcp_list_tools, which the tests of that call compare.
  expect([...examples.keys()].filter((name) => name !== 'mcp-tools').sort()).toEqual(Object.keys(made).sort());
});
