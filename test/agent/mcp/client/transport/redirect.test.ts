import { expect, it } from 'vitest';
import { followedRedirect } from '../../../../../src/agent/mcp/client/transport/redirect.ts';

it.each([
  ['http://a.test:81/mcp', 'POST', 307, '/other?x=1', 'http://a.test:81/other?x=1'],
  ['http://a.test:81/mcp', 'POST', 308, 'http://a.test:81/x', 'http://a.test:81/x'],
  ['http://a.test/mcp', 'POST', 308, 'https://a.test/mcp', 'https://a.test/mcp'],
  ['http://a.test/mcp', 'GET', 302, '/x', 'http://a.test/x'],
  ['http://a.test/mcp', 'POST', 302, '/x', null],
  ['http://a.test/mcp', 'POST', 303, '/x', null],
  ['http://a.test/mcp', 'POST', 200, '/x', null],
  ['http://a.test/mcp', 'POST', 307, undefined, null],
  ['http://a.test/mcp', 'POST', 307, 'http://[', null],
  ['http://a.test/mcp', 'POST', 307, 'http://b.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, '//b.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, 'http://a.test:8080/mcp', null],
  ['http://a.test:81/mcp', 'POST', 307, 'https://a.test/mcp', null],
  ['https://a.test/mcp', 'POST', 307, 'http://a.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, 'http://me:pw@a.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, 'file:///etc/passwd', null],
] as const)('from %s, %s, %i to %s: %s', (from, method, status, location, to) => {
  expect(followedRedirect(new URL(from), method, status, location)?.href ?? null).toBe(to);
});
