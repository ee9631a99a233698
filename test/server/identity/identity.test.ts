import { expect, it } from 'vitest';
import { mayName, type Permission, refusal } from '../../../src/server/identity/identity.ts';
import { type Identity, type Role, roles } from '../../../src/server/records/permissions.ts';

const user = (role: Role, namespace = '*'): Identity => ({
  name: 'ann',
  roles: [role],
  namespace,
  mayReadJournals: false,
  expiresAtMs: null,
});

/** The permission table, repeated on purpose: a change must be made in both places. */
const expected: Readonly<Record<Permission, readonly Role[]>> = {
  view: ['viewer', 'submitter', 'approver', 'operator', 'admin'],
  follow: ['admin', 'node'],
  report: ['admin', 'node'],
  ask: ['admin', 'node'],
  identify: ['admin', 'node'],
  submit: ['submitter', 'operator', 'admin'],
  decide: ['approver', 'admin'],
  operate: ['operator', 'admin'],
  administer: ['admin'],
};

const cells = Object.entries(expected).flatMap(([permission, able]) =>
  roles.map((role) => [role, permission as Permission, able.includes(role)] as const),
);

it.each(cells)('%s may %s: %s [people.roles]', (role, needs, may) => {
  expect(refusal(user(role), { needs }) === null).toBe(may);
  expect(refusal(user(role), { needs: 'anybody' })).toBeNull();
});

it('an identity without roles has no permissions', () => {
  for (const needs of Object.keys(expected) as Permission[]) {
    expect(refusal({ ...user('viewer'), roles: [] }, { needs })).toContain('the role of "ann" is none');
  }
});

it('an identity of one namespace cannot change shared resources [people.namespaces]', () => {
  const of = (role: Role, needs: Permission, namespaced = false) =>
    refusal(user(role, 'team-a'), { needs, namespaced });
  expect(of('operator', 'operate')).toBe(
    'this is shared by all namespaces, and "ann" is limited to the namespace "team-a"',
  );
  for (const needs of ['operate', 'administer', 'follow', 'report'] as const) expect(of('admin', needs)).not.toBeNull();
  expect(of('operator', 'operate', true)).toBeNull();
  expect(of('viewer', 'view')).toBeNull();
  for (const needs of ['follow', 'report', 'ask'] as const) expect(of('node', needs)).toBeNull();
});

it('a namespace is accessible to its own identities and to those of all namespaces [people.namespaces]', () => {
  expect(mayName(user('viewer', 'team-a'), 'team-a')).toBe(true);
  expect(mayName(user('viewer'), 'team-a')).toBe(true);
  for (const other of ['team-b', 'team-a ', 'TEAM-A', '', '*', 'default']) {
    expect(mayName(user('admin', 'team-a'), other)).toBe(false);
  }
});
