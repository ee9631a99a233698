import { expect, it } from 'vitest';
import { personOf, personOfNew } from '../../../src/server/identity/named-tokens.ts';

const tokens: Readonly<Record<string, { readonly created_by: string; readonly person?: string }>> = {
  ann: { created_by: 'bootstrap-admin' },
  early: { created_by: 'anybody' },
  'ann-2': { created_by: 'ann' },
  'ann-3': { created_by: 'ann-2' },
  ci: { created_by: 'oidc:bob' },
  orphan: { created_by: 'revoked' },
  stored: { created_by: 'revoked', person: 'ann' },
  one: { created_by: 'two' },
  two: { created_by: 'one' },
};
const find = (name: string) => tokens[name];

it.each([
  ['a token of the installation is its own person', 'ann', 'ann'],
  ['so is a token from a time without authentication', 'early', 'early'],
  ['a token belongs to its creator', 'ann-2', 'ann'],
  ['through any number of tokens', 'ann-3', 'ann'],
  ['a token belongs to the OIDC user who made it', 'ci', 'oidc:bob'],
  ['an OIDC user is its own person', 'oidc:bob', 'oidc:bob'],
  ['a token of a revoked creator belongs to that name', 'orphan', 'revoked'],
  ['what was stored at the creation holds', 'stored', 'ann'],
  ['the bootstrap token is its own', 'bootstrap-admin', 'bootstrap-admin'],
])('%s [approval.person]', (_, name, person) => {
  expect(personOf(name, find)).toBe(person);
});

it('ends if tokens name each other as creators', () => {
  expect(personOf('one', find)).toBe('one');
});

it('a new token belongs to the person behind its creator', () => {
  expect(personOfNew('new', 'ann-3', find)).toBe('ann');
  expect(personOfNew('new', 'bootstrap-admin', find)).toBe('new');
  expect(personOfNew('new', 'oidc:bob', find)).toBe('oidc:bob');
});
