import { expect, it } from 'vitest';
import { MASK, maskArguments, maskUrl, maskValue } from '../../../src/server/records/credentials.ts';
import { maskRecord, unmask } from '../../../src/server/records/mask.ts';
import { sampleRecord } from './server-samples.ts';

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
  [`\${ENV:A:-sk-abcdefgh12345678}`, `\${ENV:A:-${MASK}}`],
])('shows %j as %j', (value, shown) => {
  expect(maskValue(value)).toBe(shown);
});

const stored = sampleRecord('web', {
  transport: 'streamable_http',
  stdio: undefined,
  http: { url: 'https://a.example', headers: { 'X-Key': 'secret', 'X-Ref': `a-\${ENV:MCP_A}` } },
});

it('restores stored values, whatever the case of a header [sms.http.mask_kept]', () => {
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

it('does not change input of the wrong type, which validation reports [sms.http.mask_kept]', () => {
  for (const input of [{}, { http: 7 }, { http: { headers: [] } }, { stdio: { env: { A: 7 } } }]) {
    expect(unmask(input, stored)).toEqual({ input, issues: [] });
  }
});

it('does not modify the record', () => {
  expect(maskRecord(stored).http?.headers['X-Key']).toBe(MASK);
  expect(stored.http?.headers['X-Key']).toBe('secret');
});

it.each([
  ['https://a.example/mcp', 'https://a.example/mcp'],
  ['https://bob:hunter22@a.example/mcp', `https://bob:${MASK}@a.example/mcp`],
  ['https://token-alone@a.example/', `https://${MASK}@a.example/`],
  [`https://bob:\${ENV:MCP_P}@a.example/`, `https://bob:\${ENV:MCP_P}@a.example/`],
  [`https://\${ENV:MCP_H:-a:b@c/d}/x`, `https://\${ENV:MCP_H:-a:b@c/d}/x`],
  ['https://a.example/?region=eu&api_key=hunter22#part', `https://a.example/?region=eu&api_key=${MASK}#part`],
  [`https://a.example/?token=\${ENV:MCP_T}&q=1`, `https://a.example/?token=\${ENV:MCP_T}&q=1`],
  ['https://a.example/?x=ghp_abcdefghijklmnop1234', `https://a.example/?x=${MASK}`],
  ['https://a.example/?token', 'https://a.example/?token'],
])('shows the url %j as %j', (url, shown) => {
  expect(maskUrl(url)).toBe(shown);
});

it('masks arguments that look like credentials', () => {
  const args = ['serve', '--token', 'hunter22', '--api-key=hunter22', '--port', '8080', 'https://b:hunter22@x/'];
  expect(maskArguments(args)).toEqual(['serve', '--token', MASK, `--api-key=${MASK}`, '--port', '8080', MASK]);
});

it('restores a stored url and stored arguments in place of their masks', () => {
  const url = 'https://bob:hunter22@a.example/?api_key=k-1234&q=1';
  const web = sampleRecord('web', { transport: 'streamable_http', stdio: undefined, http: { url } });
  const shown = maskRecord(web).http?.url ?? '';
  expect(shown).not.toMatch(/hunter22|k-1234/);
  expect(unmask({ http: { url: shown } }, web)).toEqual({ input: { http: { url } }, issues: [] });
  const changed = unmask({ http: { url: shown.replace('a.example', 'b.example') } }, web);
  expect(changed.issues.map(({ path }) => path)).toEqual(['http.url']);

  const tool = sampleRecord('tool', { stdio: { command: 'x', args: ['--token', 'hunter22', 'y'] } });
  expect(unmask({ stdio: { args: ['--token', MASK, 'z'] } }, tool)).toEqual({
    input: { stdio: { args: ['--token', 'hunter22', 'z'] } },
    issues: [],
  });
  const moved = unmask({ stdio: { args: ['y', '--token', MASK] } }, tool);
  expect(moved.issues.map(({ path }) => path)).toEqual(['stdio.args[2]']);
});
