import { describe, expect, it } from 'vitest';
import { recordDir, recordOf, script, taskWithMcp } from '../agent/mcp/mcp-run.ts';
import { fixture, spearRun } from '../e2e/spear-run.ts';
import { withoutProgress } from './component-progress.ts';

const forms = [
  ['module', '.wasm'],
  ['component', '.component.wasm'],
] as const;

async function runExample(file: string, name: string): Promise<string[]> {
  // The task of chat gives an argument, which this chat does not read.
  const task = name === 'chat' ? [] : ['--task-config', fixture(`tasks/${name}.json`)];
  const { code, stdout, stderr } = await spearRun([
    fixture(file),
    '--script',
    fixture(`scripts/${name}.json`),
    ...task,
  ]);
  expect({ code, stderr: withoutProgress(stderr) }).toEqual({ code: 0, stderr: '' });
  return stdout.trimEnd().split('\n');
}

const call = (id: string, name: string, args: Record<string, string> = {}) => ({ id, name, arguments: args });

/** What the model says to test/sdk.rs; the turns check what the tools answered. */
const model = () =>
  script(
    { when: { content: 'Fail, please.' }, error: { status: 400, message: 'the model is tired' } },
    { when: { content: 'Nothing but tools.', no_tools: true }, reply: { tool_calls: [call('n', 'sing')] } },
    {
      when: { content: 'Use the tools.', tools: ['note', 'age'] },
      reply: {
        tool_calls: [call('a', 'note', { text: 'first' }), call('b', 'note'), call('c', 'age', { years: '200' })],
      },
    },
    {
      when: { tool_call_id: 'c', messages: 5, content: failed('200 years is too old') },
      reply: { tool_calls: [call('d', 'age', { years: '44' }), call('e', 'age', { years: 'old' })] },
    },
    {
      when: { tool_call_id: 'e', content: failed('invalid digit found in string') },
      reply: { tool_calls: [call('f', 'note')] },
    },
    {
      when: { tool_call_id: 'f', content: failed('argument text: a text is needed, found nothing') },
      reply: { tool_calls: [call('g', 'note', { text: 'last' })] },
    },
    { when: { tool_call_id: 'g', content: 'noted' }, reply: { tool_calls: [call('k', 'flood')] } },
    {
      when: { tool_call_id: 'k', content: failed('the result is larger than a limit of the task') },
      reply: { content: 'é'.repeat(5000) },
    },
    { when: { content: 'Delegate this.' }, reply: { tool_calls: [call('h', 'delegate', { task: 'inner' })] } },
    { when: { role: 'user', content: 'inner' }, reply: { content: 'done inside' } },
    { when: { tool_call_id: 'h', content: 'done inside' }, reply: { content: 'done outside' } },
    { when: { content: 'Go step by step.' }, reply: { tool_calls: [call('i', 'step')] } },
    { when: { tool_call_id: 'i', content: 'stepped' }, reply: { tool_calls: [call('j', 'step')] } },
    { when: { tool_call_id: 'j', content: 'stepped' }, reply: { content: 'two steps' } },
    { when: { content: 'Once more.' }, reply: { content: 'as you like' } },
    { when: { content: 'Wait for ever.' }, reply: { content: 'never' }, delay_ms: 600_000 },
  );

const failed = (message: string) => JSON.stringify({ error: { code: 'tool_exec_failed', message } });

const sdkLines = [
  'abi: 1.1, feature: false',
  'clock: true, random: true',
  'é'.repeat(8192),
  'é',
  'kind: "ChatSession"',
  'open: Ok(())',
  'dropped: Err(EBADF)',
  'set: Err(EACCES) Err(EINVAL)',
  'server: Err(EACCES)',
  expect.stringMatching(
    /^model: Err\(Failure \{ code: "\w+", message: ".*the model is tired.*", retryable: false \}\)$/,
  ),
  'no text: Err(Failure { code: "no_text", message: "there is no text in the answer", retryable: false })',
  'long answer: 10000 bytes',
  'metrics: 6 model calls, 8 tool calls',
  'noted: ["first", "last"]',
  'nested: done outside',
  'without waiting: two steps (3 rounds)',
  'and waiting again: as you like',
  'busy: Err(EBUSY)',
  'canceled: Err(ECANCELED)',
  'servers: mid tiny, transport: "stdio"',
  expect.stringContaining('echo'),
  'echo: as text',
  'large: 10000',
  'structured: {"answer":42}',
  'failed: Err("mcp_tool_error")',
  'pending: true',
  'canceled: Err(ECANCELED)',
  'dropped: Err(EBADF)',
  'sum: 4950',
  'epoll: Err(ENOENT) Err(ENOENT) Err(EINVAL)',
  'timeout: 0',
  'the end: ECANCELED (125): it was canceled',
];

describe.each(forms)('a guest in Rust, as a %s', (_form, ending) => {
  it('hello says hello [guests.rust]', async () => {
    const { code, stdout, stderr } = await spearRun([fixture(`rust/hello${ending}`)]);
    expect({ code, stdout, stderr: withoutProgress(stderr) }).toEqual({
      code: 0,
      stdout: 'hello from Rust\n',
      stderr: '',
    });
  });

  it('chat prints the answer to its question [guests.rust]', async () => {
    expect(await runExample(`rust/chat${ending}`, 'chat')).toEqual([
      'WebAssembly is a compact binary format for programs that run fast and sandboxed on any host.',
    ]);
  });

  it('sum answers the model with a closure [guests.rust]', async () => {
    expect(await runExample(`rust/sum${ending}`, 'sum')).toEqual([
      'tool sum {"a":2,"b":40} -> {"sum":42}',
      '2 + 40 = 42',
    ]);
  });

  it('epoll prints the answer that comes first first [guests.rust]', async () => {
    expect(await runExample(`rust/epoll${ending}`, 'epoll')).toEqual([
      'asked 0: Tell me a long story about the sea.',
      'asked 1: Name one colour.',
      'answer 1: Blue.',
      'answer 0: Once there was a lighthouse that kept watch over a quiet sea.',
    ]);
  });

  it('agent prints what the agent in C prints [guests.rust]', async () => {
    expect(await runExample(`rust/agent${ending}`, 'agent')).toEqual(await runExample('c/agent.wasm', 'agent'));
  });

  it('uses all of the SDK [sdk.rust, sdk.rust.tools]', async () => {
    const records = recordDir({
      'tiny.json': recordOf('tiny', 'tiny.mjs'),
      'mid.json': recordOf('mid', 'mid-call.mjs'),
    });
    const flags = [...taskWithMcp(['tiny', 'mid']), '--mcp-dir', records, ...model()];
    const { code, stdout, stderr } = await spearRun([fixture(`rust/test/sdk${ending}`), ...flags]);
    expect({ code, stderr: withoutProgress(stderr) }).toEqual({
      code: 0,
      stderr: 'spear-run: a message is larger than limits.max_message_bytes = 4194304: EMSGSIZE\n',
    });
    expect(stdout.trimEnd().split('\n')).toEqual(sdkLines);
  });

  it('a panic is a line on stderr and a trap [sdk.rust.panic]', async () => {
    const { code, stdout, stderr } = await spearRun([fixture(`rust/test/panic${ending}`)]);
    expect(stdout).toBe('before the panic\n');
    expect(stderr).toMatch(/panic: nothing left to try: 0 parts \(test\/panic\.rs:\d+:\d+\)/);
    expect(code).toBe(134);
  });

  it('an error that run returns is a line on stderr and exit code 1 [sdk.rust.errors]', async () => {
    const { code, stdout, stderr } = await spearRun([fixture(`rust/test/fails${ending}`)]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('EACCES (13): policy does not allow it');
  });
});
