import { expect, it } from 'vitest';
import { type Identity, mayName, type Permission, refusal } from '../../../src/server/identity/identity.ts';
import { type Role, roles } from '../../../src/server/records/permissions.ts';

const somebody = (role: Role, namespace = '*'): Identity => ({
  name: 'somebody',
  roles: [role],
  namespace,
  mayReadJournals: false,
  expiresAtMs: null,
});

/** Who may what, written down a second time: a right that moves must be moved here too. */
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
  expect(refusal(somebody(role), { needs }) === null).toBe(may);
  expect(refusal(somebody(role), { needs: 'anybody' })).toBeNull();
});

it('somebody without any role may nothing', () => {
  for (const needs of Object.keys(expected) as Permission[]) {
    expect(refusal({ ...somebody('viewer'), roles: [] }, { needs })).toContain('the role of "somebody" is none');
  }
});

it('who is of one namespace changes nothing that all share [people.namespaces]', () => {
  const of = (role: Role, needs: Permission, namespaced = false) =>
    refusal(somebody(role, 'team-a'), { needs, namespaced });
  expect(of('operator', 'operate')).toBe(
    'this is shared by all namespaces, and "somebody" is limited to the namespace "team-a"',
  );
  for (const needs of ['operate', 'administer', 'follow', 'report'] as const) expect(of('admin', needs)).not.toBeNull();
  expect(of('operator', 'operate', true)).toBeNull();
  expect(of('viewer', 'view')).toBeNull();
  for (const needs of ['follow', 'report', 'ask'] as const) expect(of('node', needs)).toBeNull();
});

it('a namespace is named by its own and by those of all [people.namespaces]', () => {
  expect(mayName(somebody('viewer', 'team-a'), 'team-a')).toBe(true);
  expect(mayName(somebody('viewer'), 'team-a')).toBe(true);
  for (const other of ['team-b', 'team-a ', 'TEAM-A', '', '*', 'default']) {
    expect(mayName(somebody('admin', 'team-a'), other)).toBe(false);
  }
});
