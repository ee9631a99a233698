import { expect, it } from 'vitest';
import { exhaustedResource, systemErrorOf } from '../../src/base/system-error.ts';

const coded = (code: string, message = 'why') => Object.assign(new Error(message), { code });

it.each([
  ['its own code', coded('EMFILE'), 'EMFILE'],
  ['the code of its cause', new Error('why', { cause: new Error('why', { cause: coded('EIO') }) }), 'EIO'],
  ['what a thread failed with', coded('ERR_WORKER_INIT_FAILED', 'Worker initialization failure: ENFILE'), 'ENFILE'],
  ['nothing for an error of Node', coded('ERR_INVALID_ARG_TYPE'), null],
  ['nothing for a text that mentions a code', new Error('EMFILE'), null],
  ['nothing for what is no error', undefined, null],
])('finds %s', (_, error, expected) => {
  expect(systemErrorOf(error)).toBe(expected);
});

it('ends at a chain of causes that is a ring', () => {
  const ring = new Error('why');
  ring.cause = ring;
  expect(systemErrorOf(ring)).toBeNull();
});

it.each(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOSPC', 'EDQUOT'])('%s is an exhausted resource', (code) => {
  expect(exhaustedResource(code)).not.toBeNull();
});

it.each([null, 'EIO', 'EACCES'])('%s is none', (code) => {
  expect(exhaustedResource(code)).toBeNull();
});
