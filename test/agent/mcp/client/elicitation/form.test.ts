import { describe, expect, it } from 'vitest';
import {
  checkForm,
  type FormField,
  formLimits,
  parseForm,
  UnusableQuestion,
} from '../../../../../src/agent/mcp/client/elicitation/form.ts';
import {
  MAX_QUESTION_CHARS,
  MAX_QUESTION_MESSAGE_CHARS,
  parseQuestion,
} from '../../../../../src/agent/mcp/client/elicitation/question.ts';

const form = (properties: object, required: readonly string[] = []): readonly FormField[] =>
  parseForm(JSON.parse(JSON.stringify({ type: 'object', properties, required })));

const problem = (properties: object, content: object, required: readonly string[] = []) => {
  const checked = checkForm(form(properties, required), content);
  return 'problem' in checked ? checked.problem : null;
};

const same = (text: string) => text;
const ask = (params: object) => parseQuestion(JSON.parse(JSON.stringify(params)), same);

describe('the form of a question', () => {
  it('has fields of all kinds of all MCP versions', () => {
    const fields = form(
      {
        text: { type: 'string', title: 'T', description: 'D', minLength: 1, maxLength: 9, format: 'email' },
        number: { type: 'number', minimum: 0.5, maximum: 2, default: 1 },
        integer: { type: 'integer', default: 1.5 },
        yes: { type: 'boolean', default: true },
        plain: { type: 'string', enum: ['a', 'b'], default: 'b' },
        named: { type: 'string', enum: ['a', 'b'], enumNames: ['A', 'B'] },
        titled: { type: 'string', oneOf: [{ const: 'a', title: 'A' }] },
        many: { type: 'array', items: { type: 'string', enum: ['a', 'b'] }, minItems: 1, maxItems: 2 },
        titledMany: { type: 'array', items: { anyOf: [{ const: 'a', title: 'A' }] }, default: ['a'] },
      },
      ['text'],
    );
    expect(fields).toMatchObject([
      { kind: 'text', title: 'T', description: 'D', required: true, minLength: 1, maxLength: 9, format: 'email' },
      { kind: 'number', integer: false, minimum: 0.5, maximum: 2, default: 1, required: false },
      { kind: 'number', integer: true, default: null },
      { kind: 'boolean', default: true },
      { kind: 'choice', options: [{ value: 'a' }, { value: 'b' }], default: 'b' },
      {
        kind: 'choice',
        options: [
          { value: 'a', title: 'A' },
          { value: 'b', title: 'B' },
        ],
      },
      { kind: 'choice', options: [{ value: 'a', title: 'A' }] },
      { kind: 'choices', options: [{ value: 'a' }, { value: 'b' }], minItems: 1, maxItems: 2 },
      { kind: 'choices', options: [{ value: 'a', title: 'A' }], default: ['a'] },
    ]);
  });

  it.each([
    ['an object', { a: { type: 'object', properties: {} } }, 'is not a string, number, boolean or choice'],
    ['a list of objects', { a: { type: 'array', items: { type: 'object' } } }, 'something other than choices'],
    ['no type', { a: { enum: ['x'] } }, 'is not a string, number, boolean or choice'],
    ['no choices', { a: { type: 'string', enum: [] } }, 'an empty list of choices'],
    ['a choice that is no text', { a: { type: 'string', enum: [1] } }, 'not a string'],
    ['too many choices', { a: { type: 'string', enum: Array(formLimits.options + 1).fill('x') } }, 'choices'],
    ['no schema', { a: true }, 'a schema that is not an object'],
    ['a long name', { ['x'.repeat(formLimits.nameChars + 1)]: { type: 'string' } }, 'a field name has 101'],
    ['too many fields', Object.fromEntries(Array.from({ length: 33 }, (_, n) => [n, { type: 'string' }])), '33 fields'],
    ['none', {}, 'no fields'],
  ])('with %s is not shown [elicitation.bounds]', (_what, properties, why) => {
    expect(() => form(properties)).toThrow(UnusableQuestion);
    expect(() => form(properties)).toThrow(why);
  });

  it('that requires an undefined field is not shown', () => {
    expect(() => form({ a: { type: 'string' } }, ['b'])).toThrow('does not define');
    expect(() => parseForm({ type: 'string' })).toThrow(UnusableQuestion);
  });

  it.each([
    [{ type: 'string', minLength: 2 }, ['ab', '😀😀'], ['a', '😀', 1, null, ['ab']]],
    [{ type: 'string', maxLength: 2 }, ['', 'ab', '😀😀'], ['abc']],
    [{ type: 'string', format: 'email' }, ['a@b.example'], ['a', 'a@', 'a b@c', '@c']],
    [{ type: 'string', format: 'uri' }, ['https://a.example/', 'urn:x:y'], ['a', '/path', 'https://a b']],
    [{ type: 'string', format: 'date' }, ['2024-02-29'], ['2023-02-29', '2024-2-9', '2024-02-29T00:00:00Z']],
    [
      { type: 'string', format: 'date-time' },
      ['2024-02-29T01:02:03Z', '2024-02-29T01:02:03.5+02:00'],
      ['2024-02-29', '2024-02-30T00:00:00Z', '2024-02-29T25:00:00Z'],
    ],
    [{ type: 'string', format: 'of-tomorrow' }, ['anything'], [1]],
    [{ type: 'number', minimum: 1, maximum: 2 }, [1, 1.5, 2], [0.9, 2.1, '1', true]],
    [{ type: 'integer' }, [0, -3], [0.5, 2 ** 60, '1']],
    [{ type: 'boolean' }, [true, false], ['true', 0]],
    [{ type: 'string', enum: ['a', 'b'] }, ['a'], ['c', '', ['a']]],
    [
      { type: 'array', items: { enum: ['a', 'b', 'c'] }, minItems: 1, maxItems: 2 },
      [['a'], ['a', 'b']],
      [[], ['a', 'a'], ['d'], ['a', 'b', 'c'], 'a'],
    ],
  ] as const)('%j takes %j and not %j [elicitation.schema]', (schema, good, bad) => {
    for (const value of good) expect(problem({ a: schema }, { a: value }), JSON.stringify(value)).toBeNull();
    for (const value of bad) {
      if (value !== null) expect(problem({ a: schema }, { a: value }), JSON.stringify(value)).toMatch(/^"a" must/);
    }
  });

  it('fills in defaults, and rejects unknown fields [elicitation.schema]', () => {
    const fields = form({ a: { type: 'string', default: 'x' }, b: { type: 'integer' }, c: { type: 'boolean' } }, ['c']);
    expect(checkForm(fields, { c: false })).toEqual({ content: { a: 'x', c: false } });
    expect(checkForm(fields, {})).toEqual({ problem: '"c" is required' });
    expect(checkForm(fields, { c: true, d: 1 })).toEqual({ problem: 'the form has no field "d"' });
    expect(checkForm(fields, 'x')).toEqual({ problem: 'content is missing' });
    const odd = parseForm(JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}'));
    expect(JSON.stringify(checkForm(odd, JSON.parse('{"__proto__":"x"}')))).toBe('{"content":{"__proto__":"x"}}');
  });
});

describe('a question', () => {
  const requestedSchema = { type: 'object', properties: { a: { type: 'string' } } };

  it.each([
    [
      'a long message',
      { message: 'x'.repeat(MAX_QUESTION_MESSAGE_CHARS + 1), requestedSchema },
      'the message has 4001',
    ],
    ['a message of a megabyte', { message: 'x'.repeat(1_000_000), requestedSchema }, 'the request has 10'],
    ['a large form', { message: '', requestedSchema, more: 'x'.repeat(MAX_QUESTION_CHARS) }, 'the limit is 65536'],
    ['no message', { requestedSchema }, 'no message'],
    ['an unknown mode', { message: '', mode: 'voice', requestedSchema }, 'neither "form" nor "url"'],
  ])('with %s is not shown [elicitation.bounds]', (_what, params, why) => {
    expect(() => ask(params)).toThrow(why);
  });

  it('that is nested too deeply is not shown [elicitation.bounds]', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`);
    expect(() => parseQuestion({ message: 'x', requestedSchema: deep }, same)).toThrow(UnusableQuestion);
  });

  it('is redacted', () => {
    const question = parseQuestion({ message: 'your hunter2hunter2 please', requestedSchema }, (text) =>
      text.replaceAll('hunter2hunter2', '***'),
    );
    expect(question.message).toBe('your *** please');
  });

  it.each([
    'http://example.com/',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'data:text/html,x',
    'https://good.example@evil.example/',
    'https://:x@evil.example/',
    'http://127.0.0.1.evil.example/',
    'http://localhost.evil.example/',
    'no address',
  ])('is not shown with the URL %s [elicitation.url]', (url) => {
    expect(() => ask({ mode: 'url', message: '', url })).toThrow(UnusableQuestion);
  });

  it.each(['https://a.example/x?y#z', 'http://localhost:3000/', 'http://127.0.0.1:1/', 'http://[::1]:1/'])(
    'may be asked with the address %s [elicitation.url]',
    (url) => {
      expect(ask({ mode: 'url', message: 'Log in.', url })).toEqual({ mode: 'url', message: 'Log in.', url });
    },
  );
});
