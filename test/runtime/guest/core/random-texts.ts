import fc from 'fast-check';

/** Where callbacks find their arguments; the host may write here during a send and a wait. */
export const ARENA = { ptr: 0x1_0000, length: 4096 } as const;

/** No text is longer than this. */
export const MAX_TEXT_BYTES = 1024;

const param = (key: string, value: unknown) => JSON.stringify({ key, value });

const tools = [
  '{"name":"sum"}',
  '{"type":"function","function":{"name":"sum","parameters":{}}}',
  '{"name":""}',
  '{"name":"other"}',
];
const flags = ['{"set":["O_NONBLOCK"],"clear":[]}', '{"clear":["O_NONBLOCK"]}', '{"set":["O_SYNC"]}', '{}', '[]'];
const params = [
  param('tool_arena_ptr', ARENA.ptr),
  param('tool_arena_len', ARENA.length),
  param('tool_arena_ptr', 0xffff_ffff),
  param('tool_arena_len', 3),
  param('max_iterations', 2),
  param('max_tool_output_bytes', 8),
  param('timeout_ms', 1),
  param('tool_choice', 'none'),
  param('mcp.enabled', true),
  param('mcp.server_ids', ['fs']),
  param('mcp.task_x', 1),
  param('__proto__', { constructor: 1 }),
  param('constructor', 1),
  param('temperature', 0.5),
  param('model', 'large'),
  `{"key":"deep","value":${'['.repeat(500)}`,
  `{"key":"deep","value":${'['.repeat(400)}${']'.repeat(400)}}`,
];
const toolCalls = ['echo', '{"message":"x"}', '{}', 'fail', 'structured'];
const others = ['user', 'call_1', 'epoll', '', '{"key":"x"', 'null'];

/** Texts that the call understands, more often than others. */
const fitting: Readonly<Record<string, readonly string[]>> = {
  cchat_write_fn: tools,
  cchat_ctl: params,
  spear_fd_ctl: flags,
  cchat_write_tool_result: ['call_1'],
  mcp_open: ['tiny', 'other'],
  mcp_registry_get: ['tiny', 'other'],
  mcp_call_tool: toolCalls,
  mcp_submit: toolCalls,
  mcp_read_resource: ['notes://notes/a', 'file:///a/../b', ':'],
  mcp_get_prompt: ['poem', '{"tone":"sad"}', '{"tone":1}', '{}'],
};

const everything = [...tools, ...flags, ...params, ...others];

export function randomText(call: string): fc.Arbitrary<Uint8Array> {
  const bytes = (text: string) => Buffer.from(text).subarray(0, MAX_TEXT_BYTES);
  return fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...(fitting[call] ?? others)).map(bytes) },
    { weight: 4, arbitrary: fc.constantFrom(...everything).map(bytes) },
    { weight: 1, arbitrary: fc.json({ maxDepth: 3 }).map(bytes) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 2 }))
        .map(([key, value]) => bytes(param(key, value))),
    },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 64 }) },
  );
}
