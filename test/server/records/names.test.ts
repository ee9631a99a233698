import { expect, it } from 'vitest';
import { checkTaskRecord } from '../../../src/config/task-document.ts';
import { isServerId } from '../../../src/server/records/field-rules.ts';
import { isNamespace } from '../../../src/server/records/permissions.ts';
import { taskKind } from '../../../src/server/records/task.ts';
import { isTokenName } from '../../../src/server/records/token.ts';

const inherited = Object.getOwnPropertyNames(Object.prototype);

it.each(inherited)('refuses %s as a namespace, task, server and token', (name) => {
  expect([isNamespace(name), isServerId(name), isTokenName(name)]).toEqual([false, false, false]);
  expect([taskKind.isId(`${name}/x`), taskKind.isId(`x/${name}`)]).toEqual([false, false]);
  expect(checkTaskRecord('t', { name, wasm: 'x' })).toHaveProperty('complaint');
  expect(checkTaskRecord('t', { name: 'x', namespace: name, wasm: 'x' })).toHaveProperty('complaint');
});

it('accepts names that only start with an inherited name', () => {
  const name = 'constructor-2';
  expect([isNamespace(name), isServerId(name), isTokenName(name)]).toEqual([true, true, true]);
  expect(checkTaskRecord('t', { name, namespace: name, wasm: 'x' })).toHaveProperty('document');
});
