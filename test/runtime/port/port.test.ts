import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PortViolation, parseGuestMessage } from '../../../src/runtime/port/port.ts';

const delta = { messages: [['user', 'hi']], tools: [[1, '{}']], toolResults: [['a', 'b']], params: [['k', null]] };
const empty = { messages: [], tools: [], toolResults: [], params: [] };
const report = { ending: { kind: 'exit', code: 0 }, droppedLogLines: 0 };

const good: readonly unknown[][] = [
  [0, 1, 0, 'send', 1000, 7, delta],
  [0, 1, 0, 'send', 1000, 0, empty],
  [0, 1, 0, 'cancel'],
  [0, 1, 0, 'tool_result', 1, -5, 'x'],
  [0, 0, 0, 'close_session', 1000],
  [0, 2, 0, 'stdin', 4096],
  [0, 3, 1, 'mcp_open', 'fs'],
  [0, 3, 1, 'mcp_list', 'fs'],
  [0, 3, 1, 'mcp_list_resources', 'fs'],
  [0, 3, 1, 'mcp_list_prompts', 'fs'],
  [0, 3, 1, 'mcp_call', 1000, 'fs', 'read', '{}'],
  [0, 3, 1, 'mcp_read_resource', 1000, 'fs', 'file:///a', ''],
  [0, 3, 1, 'mcp_get_prompt', 1000, 'fs', 'ask', '{}'],
  [0, 3, 1, 'mcp_registry', null],
  [0, 3, 1, 'mcp_registry', 'fs'],
  [0, 0, 0, 'notice', 'text'],
  [0, 0, 0, 'ended', report],
  [0, 0, 0, 'ended', { ...report, ending: { kind: 'trap', message: 'm', stack: '' } }],
  [0, 0, 0, 'ended', { ...report, ending: { kind: 'load_failed', message: 'm' } }],
];

const bad: readonly [what: string, message: unknown][] = [
  ['nothing', undefined],
  ['a text', 'send'],
  ['too short', [0, 1, 0]],
  ['an unknown op', [0, 1, 0, 'shutdown']],
  ['an inherited op', [0, 1, 0, 'constructor']],
  ['an op that is no text', [0, 1, 0, { toString: () => 'cancel' }]],
  ['a negative call', [0, -1, 0, 'cancel']],
  ['a call that is no number', [0, '1', 0, 'cancel']],
  ['a fractional guest', [0.5, 1, 0, 'cancel']],
  ['a call beyond 2^53', [0, 2 ** 53, 0, 'cancel']],
  ['a parent that is missing', [0, 1, null, 'cancel']],
  ['a send without a delta', [0, 1, 0, 'send', 1000, 0]],
  ['a session beyond an i32', [0, 1, 0, 'send', 2 ** 31, 0, empty]],
  ['flags that are no number', [0, 1, 0, 'send', 1000, '0', empty]],
  ['messages that are no list', [0, 1, 0, 'send', 1000, 0, { ...empty, messages: {} }]],
  ['a message that is no pair', [0, 1, 0, 'send', 1000, 0, { ...empty, messages: [['user']] }]],
  ['a content that is no text', [0, 1, 0, 'send', 1000, 0, { ...empty, messages: [['user', 1]] }]],
  ['a tool with a fractional index', [0, 1, 0, 'send', 1000, 0, { ...empty, tools: [[0.5, '{}']] }]],
  ['a param without a value', [0, 1, 0, 'send', 1000, 0, { ...empty, params: [['k', undefined]] }]],
  ['a param whose key is an object', [0, 1, 0, 'send', 1000, 0, { ...empty, params: [[{}, 1]] }]],
  ['a result with a fractional rc', [0, 1, 0, 'tool_result', 1, 0.5, '']],
  ['a result without content', [0, 1, 0, 'tool_result', 1, 0]],
  ['stdin of a negative size', [0, 1, 0, 'stdin', -1]],
  ['a notice that is no text', [0, 1, 0, 'notice', {}]],
  ['an end without a report', [0, 1, 0, 'ended']],
  ['an unknown ending', [0, 1, 0, 'ended', { ...report, ending: { kind: 'bliss' } }]],
  ['an exit code beyond an i32', [0, 1, 0, 'ended', { ...report, ending: { kind: 'exit', code: 2 ** 40 } }]],
  ['a trap without a stack', [0, 1, 0, 'ended', { ...report, ending: { kind: 'trap', message: '' } }]],
  ['no count of dropped lines', [0, 1, 0, 'ended', { ...report, droppedLogLines: 'x' }]],
];

describe('messages of the guest thread', () => {
  it.each(good.map((message) => [String(message[3]), message]))(
    '%s passes as it is [port.validate]',
    (_op, message) => {
      expect(parseGuestMessage(structuredClone(message))).toEqual(message);
    },
  );

  it.each(bad)('%s is refused [port.validate]', (_what, message) => {
    expect(() => parseGuestMessage(message)).toThrow(PortViolation);
  });

  it('are never met with another exception [port.validate]', () => {
    const header = fc.tuple(
      fc.nat(),
      fc.nat(),
      fc.nat(),
      fc.constantFrom(...good.map((message) => String(message[3]))),
    );
    const any = fc.oneof(
      fc.anything(),
      fc.tuple(header, fc.array(fc.anything())).map(([head, rest]) => [...head, ...rest]),
    );
    fc.assert(
      fc.property(any, (message) => {
        try {
          parseGuestMessage(message);
        } catch (error) {
          expect(error).toBeInstanceOf(PortViolation);
        }
      }),
      { numRuns: 2000, seed: 12 },
    );
  });
});
