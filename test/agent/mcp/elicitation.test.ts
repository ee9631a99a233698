import { expect, it } from 'vitest';
import { parseForm } from '../../../src/agent/mcp/client/elicitation/form.ts';
import { secretField } from '../../../src/agent/mcp/elicitation.ts';

const found = (name: string, schema: object) =>
  secretField(parseForm({ type: 'object', properties: { [name]: { type: 'string', ...schema } } }));

it.each([
  ['password', {}],
  ['PASSWORD', {}],
  ['new_password', {}],
  ['dbPasswd', {}],
  ['passphrase', {}],
  ['api_key', {}],
  ['apiKey', {}],
  ['APIKEY', {}],
  ['openai-api-key', {}],
  ['access_token', {}],
  ['clientSecret', {}],
  ['private_key', {}],
  ['credentials', {}],
  ['card_number', {}],
  ['creditCard', {}],
  ['cvv', { type: 'integer' }],
  ['pin', { type: 'integer' }],
  ['otp', {}],
  ['value', { title: 'Your password' }],
  ['value', { title: 'API key' }],
  ['value', { title: 'One-time code' }],
  ['value', { title: 'ｐａｓｓｗｏｒｄ' }],
  ['value', { format: 'password' }],
])('a field %j %j asks for a secret [elicitation.secrets]', (name, schema) => {
  expect(found(name, schema)).toBe(name);
});

it.each([
  ['name', {}],
  ['email', {}],
  ['max_tokens', { type: 'integer' }],
  ['tokens', {}],
  ['keyboard', {}],
  ['opinion', {}],
  ['shipping', {}],
  ['monkey', {}],
  ['use_password', { type: 'boolean' }],
  ['auth', { enum: ['password', 'token'] }],
  ['note', { description: 'do not give us your pin or password' }],
])('a field %j %j does not', (name, schema) => {
  expect(found(name, schema)).toBeNull();
});
