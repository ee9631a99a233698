import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { errorCode, errorText } from '../../src/base/error-text.ts';

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
