import { expect, it } from 'vitest';
import { chooseCall } from '../../scripts/peers/choose-call.ts';
import type { JsonObject } from '../../src/base/json.ts';

const tool = (name: string, inputSchema: JsonObject = { type: 'object' }, annotations: JsonObject | null = null) => ({
  name,
  title: null,
  description: '',
  inputSchema,
  outputSchema: null,
  annotations,
});
const needs = (...required: string[]) => ({ type: 'object', required });

it('takes what asks for the fewest arguments among what only reads', () => {
  expect(chooseCall([tool('get_one', needs('id')), tool('list_all')])).toEqual({ tool: 'list_all', args: {} });
  const hinted = tool('weather', { type: 'object' }, { readOnlyHint: true });
  expect(chooseCall([hinted, tool('other')])).toEqual({ tool: 'weather', args: {} });
});

it.each(['delete_all', 'send_message', 'run_command', 'git_add', 'create_list', 'frobnicate'])(
  'does not call %s',
  (name) => {
    expect(chooseCall([tool(name)])).toBeNull();
    if (name !== 'frobnicate' && name !== 'git_add')
      expect(chooseCall([tool(name, {}, { readOnlyHint: true })])).toBeNull();
  },
);

it('makes up what the schema asks for, and no more', () => {
  const properties = {
    query: { type: 'string', minLength: 9 },
    link: { type: 'string', format: 'uri' },
    count: { type: 'integer', minimum: 3 },
    deep: { type: 'boolean' },
    kind: { type: 'string', enum: ['red', 'blue'] },
    where: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] },
    some: { type: 'array', minItems: 1, items: { type: 'string' } },
    none: { type: 'array' },
    either: { anyOf: [{ type: 'number' }, { type: 'string' }] },
    preset: { type: 'string', default: 'as ever' },
    left: { type: 'string' },
  };
  const required = Object.keys(properties).filter((name) => name !== 'left');
  expect(chooseCall([tool('search', { type: 'object', properties, required })])?.args).toEqual({
    query: 'exampleee',
    link: 'https://example.com/',
    count: 3,
    deep: false,
    kind: 'red',
    where: { x: 1 },
    some: ['example'],
    none: [],
    either: 1,
    preset: 'as ever',
  });
});
