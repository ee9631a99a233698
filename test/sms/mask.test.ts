import { expect, it } from 'vitest';
import { MASK, maskRecord, maskValue, unmask } from '../../src/sms/mask.ts';
import { sampleRecord } from '../protocol/record-samples.ts';

it.each([
  ['', ''],
  ['plain', MASK],
  [`\${ENV:A}`, `\${ENV:A}`],
  [`\${ENV:A:-fallback}`, `\${ENV:A:-fallback}`],
  [`\${ENV:A}\${ENV:B}`, `\${ENV:A}\${ENV:B}`],
  [`user:\${ENV:A}`, `${MASK}\${ENV:A}`],
  [`a\${ENV:A}b\${ENV:B}c`, `${MASK}\${ENV:A}${MASK}\${ENV:B}${MASK}`],
  [`Bearer \${ENV:A}`, `Bearer \${ENV:A}`],
  ['Bearer abc', MASK],
  ['Bearer ', MASK],
  [`Bearer abc \${ENV:A}`, `${MASK}\${ENV:A}`],
])('shows %j as %j [sms.http.mask]', (value, shown) => {
  expect(maskValue(value)).toBe(shown);
});

const stored = sampleRecord('web', {
  transport: 'streamable_http',
  stdio: undefined,
  http: { url: 'https://a.example', headers: { 'X-Key': 'secret', 'X-Ref': `a-\${ENV:MCP_A}` } },
});

it('puts stored values back, whatever the case of a header [sms.http.mask_kept]', () => {
  const input = { http: { url: 'https://a.example', headers: { 'x-key': MASK, 'X-Ref': `${MASK}\${ENV:MCP_A}` } } };
  expect(unmask(input, stored)).toEqual({
    input: { http: { url: 'https://a.example', headers: { 'x-key': 'secret', 'X-Ref': `a-\${ENV:MCP_A}` } } },
    issues: [],
  });
});

it('refuses a mask around another reference than the stored one [sms.http.mask_kept]', () => {
  const input = { http: { headers: { 'X-Ref': `${MASK}\${ENV:MCP_OTHER}` } } };
  expect(unmask(input, stored).issues.map(({ path }) => path)).toEqual(['http.headers.X-Ref']);
});

it('leaves alone what is not a table of texts: others complain about that [sms.http.mask_kept]', () => {
  for (const input of [{}, { http: 7 }, { http: { headers: [] } }, { stdio: { env: { A: 7 } } }]) {
    expect(unmask(input, stored)).toEqual({ input, issues: [] });
  }
});

it('does not change the record that it shows [sms.http.mask]', () => {
  expect(maskRecord(stored).http?.headers['X-Key']).toBe(MASK);
  expect(stored.http?.headers['X-Key']).toBe('secret');
});
