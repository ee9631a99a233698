import { expect, it } from 'vitest';
import { TokenAccess, Validity } from '../../../src/server/identity/access.ts';
import { FileTokens } from '../../../src/server/identity/file-tokens.ts';
import { Sessions } from '../../../src/server/identity/sessions.ts';

const [admin, node] = ['a'.repeat(40), 'n'.repeat(40)];
const validity = new Validity();
const files = new FileTokens({ admin: [admin], node: [node] }, validity);
const access = new TokenAccess([files], [], new Sessions(validity), validity);

it.each([
  [undefined, 'missing'],
  ['', 'missing'],
  ['Basic abc', 'missing'],
  ['Bearer', 'missing'],
  [`Bearer ${admin} x`, 'missing'],
  [`Bearer ${admin}, Bearer ${node}`, 'missing'],
  [`Bearer ${'x'.repeat(40)}`, 'unknown'],
  [`Bearer ${'a'.repeat(39)}`, 'unknown'],
  [`Bearer ${'a'.repeat(41)}`, 'unknown'],
  [`Bearer ${admin},`, 'unknown'],
  [`Bearer ${'A'.repeat(40)}`, 'unknown'],
])('%j is not authenticated: %s [sms.auth.roles]', async (authorization, stranger) => {
  expect(await access.identify({ authorization })).toBe(stranger);
});

it.each([
  [`Bearer ${node}`, 'bootstrap-node', ['node']],
  [`bearer  ${admin}`, 'bootstrap-admin', ['admin']],
  [`BEARER ${admin} `, 'bootstrap-admin', ['admin']],
])('%j is %s [sms.auth.roles]', async (authorization, name, roles) => {
  expect(await access.identify({ authorization })).toMatchObject({ name, roles, namespace: '*' });
});

it('ends the subscriptions of a removed token only', () => {
  const tokens = new FileTokens({ admin: [admin, 'b'.repeat(40)], node: [node] }, validity);
  const ended: string[] = [];
  for (const token of [admin, 'b'.repeat(40), node]) {
    const who = tokens.identify(token);
    if (who === null) throw new Error('not identified');
    validity.whileValid(who, () => ended.push(token));
    validity.whileValid(who, () => ended.push('unsubscribed'))();
  }
  tokens.replace({ admin: [admin], node: [node] });
  expect(ended).toEqual(['b'.repeat(40)]);
  // The same text with another role is another credential.
  tokens.replace({ admin: [node], node: [admin] });
  expect(ended).toEqual(['b'.repeat(40), admin, node]);
});
