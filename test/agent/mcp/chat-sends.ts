import type { ScriptTurn } from '../../../src/agent/chat/backends/script-schema.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import type { TaskPolicy } from '../../../src/runtime/port/policy-layers.ts';
import type { TestGuest, TestGuestOptions } from '../../support/test-guest.ts';
import { stdioRecord } from './client/pool-records.ts';
import type { McpHost } from './mcp-host.ts';

export const tiny = stdioRecord('tiny', 'tiny.mjs');
/** Names under which the model knows its tools. */
export const echo = encodedName('tiny', 'echo');
export const pid = encodedName('tiny', 'pid');
export const fail = encodedName('tiny', 'fail');

type Call = { id: string; name: string; arguments: Record<string, string | number> };
export const call = (id: string, name: string, args: Call['arguments'] = {}): Call => ({ id, name, arguments: args });

/** The model makes these calls, and then says "done". */
export const callsThenDone = (...calls: Call[]): readonly ScriptTurn[] => [
  { when: { role: 'user' }, reply: { tool_calls: calls }, repeat: true },
  { reply: { content: 'done' }, repeat: true },
];

export const onHost = (
  host: McpHost,
  turns?: readonly ScriptTurn[],
  task: Partial<TaskPolicy> = {},
): TestGuestOptions => ({ mcp: () => host.side(task), ...(turns && { turns }) });

/** Names of the tools of one request. */
export const toolsOf = (guest: TestGuest, request = 0): string[] | undefined =>
  (guest.backend.requests[request]?.tools as { function: { name: string } }[] | undefined)?.map(
    (tool) => tool.function.name,
  );

export const messagesOf = (guest: TestGuest, request: number): JsonObject[] =>
  (guest.backend.requests[request]?.messages ?? []) as JsonObject[];

export const toolMessages = (guest: TestGuest, request: number): JsonObject[] =>
  messagesOf(guest, request).filter(({ role }) => role === 'tool');
