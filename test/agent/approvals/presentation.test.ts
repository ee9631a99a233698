import { describe, expect, it } from 'vitest';
import { definitionChanges, MAX_DEFINITION_CHANGES } from '../../../src/agent/approvals/presentation.ts';
import { hashDefinition, type ToolDefinition } from '../../../src/agent/policy/definition-hash.ts';

const base: ToolDefinition = {
  name: 'send',
  description: 'sends a message',
  inputSchema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  outputSchema: null,
  annotations: { readOnlyHint: true },
};

const cases: [string, Partial<ToolDefinition>, object[]][] = [
  ['nothing', {}, []],
  [
    'the description',
    { description: 'sends money' },
    [{ path: 'description', before: 'sends a message', after: 'sends money' }],
  ],
  [
    'a hint',
    { annotations: { readOnlyHint: false, openWorldHint: true } },
    [
      { path: 'annotations.readOnlyHint', before: true, after: false },
      { path: 'annotations.openWorldHint', before: undefined, after: true },
    ],
  ],
  ['all hints', { annotations: null }, [{ path: 'annotations', before: { readOnlyHint: true }, after: null }]],
  [
    'a parameter',
    {
      inputSchema: {
        type: 'object',
        properties: { to: { type: 'string' }, bcc: { type: 'string' } },
        required: ['to', 'bcc'],
      },
    },
    [
      { path: 'inputSchema.properties.bcc', before: undefined, after: { type: 'string' } },
      { path: 'inputSchema.required', before: ['to'], after: ['to', 'bcc'] },
    ],
  ],
  [
    'what it gives back',
    { outputSchema: { type: 'object' } },
    [{ path: 'outputSchema', before: null, after: { type: 'object' } }],
  ],
  ['the order of keys', { inputSchema: { ...base.inputSchema, type: 'object' } }, []],
];

describe('the difference between two definitions of a tool', () => {
  it.each(cases)('is told where %s changed [approval.changed]', (_, change, expected) => {
    expect(definitionChanges(base, { ...base, ...change })).toEqual(expected);
  });

  it.each(cases)('is in its hash where %s changed [approval.grant.bound]', (_, change, expected) => {
    expect(hashDefinition({ ...base, ...change }) === hashDefinition(base)).toBe(expected.length === 0);
  });

  it('is bounded [approval.changed]', () => {
    const properties = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`p${i}`, { type: 'string' }]));
    const changes = definitionChanges(base, { ...base, inputSchema: { properties } });
    expect(changes).toHaveLength(MAX_DEFINITION_CHANGES);
  });
});
