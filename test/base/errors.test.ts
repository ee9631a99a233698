import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { certificateHint, errorCode, errorText, exhaustedResource, systemErrorOf } from '../../src/base/errors.ts';

function thrownBy(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

it.each([
  [thrownBy(() => readFileSync('/does/not/exist')), 'ENOENT'],
  [runInNewContext(`Object.assign(new Error('x'), { code: 'EELSE' })`), 'EELSE'],
  [new Error('x'), undefined],
  [Object.assign(new Error('x'), { code: 3 }), undefined],
  [null, undefined],
  [undefined, undefined],
  ['ENOENT', undefined],
])('the code of %o is %s', (error, code) => {
  expect(errorCode(error)).toBe(code);
});

it.each([
  [new Error('said'), 'said'],
  ['said', 'said'],
  [undefined, 'undefined'],
])('the text of %o is %s', (error, text) => {
  expect(errorText(error)).toBe(text);
});

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

it.each([
  ['CERT_HAS_EXPIRED', 'has expired: renew the files that spearlet'],
  ['CERT_NOT_YET_VALID', 'check the clocks'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'for another name'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'pass the CA that issued it with --ca'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'pass the CA that issued it with --ca'],
])('%s has a hint of its own, and no question whether the server runs [tls.renewal]', (code, hint) => {
  expect(certificateHint(code, 'spearlet', '--ca')).toContain(hint);
});

it.each(['ECONNREFUSED', undefined])('%s is no error of a certificate', (code) => {
  expect(certificateHint(code, 'spearlet', '--ca')).toBeNull();
});
