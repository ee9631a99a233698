import { expect, it } from 'vitest';
import { createRedactor } from '../../src/pool/redaction.ts';

it.each([
  ['plain', ['s3cret'], 'token s3cret here', 'token [redacted] here'],
  ['more than once', ['s3cret'], 's3cret/s3cret', '[redacted]/[redacted]'],
  ['inside a URL', ['a b&c=d'], 'https://x/?k=a%20b%26c%3Dd', 'https://x/?k=[redacted]'],
  ['inside JSON', ['say "hi"\tnow'], '{"k":"say \\"hi\\"\\tnow"}', '{"k":"[redacted]"}'],
  ['line by line', ['-----BEGIN-----\nabcdef\n-----END-----'], 'got abcdef', 'got [redacted]'],
  ['the longer of two', ['token', 'token-of-bob'], 'token-of-bob', '[redacted]'],
  ['not what is too short to be one', ['1', 'on', ''], '1 on 1', '1 on 1'],
  ['with the end of a line of a file', ['s3cret\n'], 'token s3cret here', 'token [redacted] here'],
])('takes a secret out: %s [pool.secrets.redacted]', (_, secrets, text, clean) => {
  expect(createRedactor(secrets)(text)).toBe(clean);
});
