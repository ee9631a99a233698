import { expect, it } from 'vitest';
import { redactor } from '../../../src/chat/backends/redact.ts';
import { Secret } from '../../../src/config/secret.ts';

it('takes out every spelling of every secret, the longer one first [chat.backend.secret]', () => {
  const redact = redactor([new Secret('abc"def'), new Secret('abc"def-and-more'), new Secret('other/key')]);
  const base64 = Buffer.from('other/key').toString('base64');
  expect(redact(`1 abc"def 2 abc\\"def-and-more 3 other%2Fkey 4 ${base64} 5 other/key`)).toBe(
    '1 [redacted] 2 [redacted] 3 [redacted] 4 [redacted] 5 [redacted]',
  );
});

it('leaves words alone that are no secrets [chat.backend.secret]', () => {
  expect(redactor([new Secret('none'), new Secret('x')])('none of the boxes')).toBe('none of the boxes');
  expect(redactor([])('text')).toBe('text');
});
