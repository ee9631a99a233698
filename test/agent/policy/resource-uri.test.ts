import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePattern, matching } from '../../../src/agent/policy/pattern.ts';
import { couldBeMeant, normalUri, uriProblem } from '../../../src/agent/policy/resource-uri.ts';

describe('a URI that is to be read', () => {
  it.each([
    'file:///data/notes.md',
    'demo://resource/static/document/features.md',
    'https://example.com',
    'postgres://db/table/schema?limit=3&dir=.',
    'note:a.b',
    'memory://a..b/...',
    'fetch://https://example.com/a?b#c',
    'file:///a%20b/%C3%A9%2F',
    'a:b c',
  ])('is taken as it is: %s [mcp.offers.uri]', (uri) => {
    expect(uriProblem(uri)).toBeNull();
  });

  it.each([
    '',
    'no-scheme',
    '/etc/passwd',
    'file:',
    '1a:b',
    ' file:///a',
    'file:///a ',
    'file:///a\nb',
    'file:///a\u2028b',
    'file:///a\\b',
    'file:///a%0ab',
    'file:///a%00',
    'file:///a%zz',
    'file:///a%2',
    'file:///a/../b',
    'file:///..',
    'file:../a',
    'file:///a/./b',
    'file:///a/.',
    'file:///a/%2e%2E/b',
    'file:///a/.%2e/b',
    'file:///a/..%2fb',
    'file:///a%2f..%2fb',
    'file:///a%5c..%5cb',
    'file:///a/%252e%252e/b',
    'file:///a?path=../b',
    'file:///a?path=%2e%2e%2fb',
    'demo://../a',
    `a:${'%25'.repeat(1)}${'25'.repeat(9)}41`,
    '\ud800:a',
  ])('is refused where two readers could understand it differently: %j [mcp.offers.uri]', (uri) => {
    expect(uriProblem(uri)).not.toBeNull();
    expect(matching.resource.allows(['*'], uri)).toBe(false);
  });
});

describe('a pattern of URIs', () => {
  it.each<[pattern: string, uri: string, allows: boolean, denies: boolean]>([
    ['file:///data/*', 'file:///data/a/b', true, true],
    ['file:///data/*', 'file:///database', false, false],
    ['file:///data/*', 'FILE:///data/a', false, true],
    ['FILE:///data/*', 'file:///data/a', false, true],
    ['https://example.com/*', 'https://EXAMPLE.com/a', false, true],
    ['https://Example.com/*', 'https://Example.com/a', true, true],
    ['demo://Resource/*', 'demo://Resource/A', true, true],
    ['demo://r/secret', 'demo://r/s%65cret', false, true],
    ['demo://r/s%65cret', 'demo://r/secret', false, true],
    ['demo://r/*', 'demo://r/s%65cret', true, true],
    ['demo://r/%c3%a9', 'demo://r/%C3%A9', false, true],
    ['demo://r/a%2Fb', 'demo://r/a/b', false, false],
    ['*', 'demo://r/a', true, true],
  ])('%s and %s: allows %s, denies %s [mcp.offers.uri]', (pattern, uri, allows, denies) => {
    const list = Object.freeze([pattern]);
    expect([matching.resource.allows(list, uri), matching.resource.denies(list, uri)]).toEqual([allows, denies]);
    expect([matching.resource.allows([pattern], uri), matching.resource.denies([pattern], uri)]).toEqual([
      allows,
      denies,
    ]);
  });

  it('that allows a URI matches it as it is written, and what it denies stays denied in every spelling [mcp.offers.uri]', () => {
    const path = fc.string({ unit: fc.constantFrom('a', 'B', '/', '-', '~'), minLength: 1, maxLength: 8 });
    const encoded = (text: string, which: readonly boolean[]) =>
      [...text]
        .map((c, at) => (which[at] && c !== '/' ? `%${c.charCodeAt(0).toString(16).padStart(2, '0')}` : c))
        .join('');
    fc.assert(
      fc.property(path, fc.array(fc.boolean(), { maxLength: 8 }), fc.boolean(), (text, which, loud) => {
        const written = `${loud ? 'DEMO://HOST' : 'demo://host'}/${encoded(text, which)}`;
        expect(matching.resource.denies([`demo://host/${text}`], written)).toBe(true);
        if (matching.resource.allows([`demo://host/${text}`], written)) expect(written).toBe(`demo://host/${text}`);
        expect(normalUri(normalUri(written))).toBe(normalUri(written));
      }),
    );
  });
});

describe('a template', () => {
  it.each<[pattern: string, template: string, could: boolean]>([
    ['notes://days/*', 'notes://days/{day}', true],
    ['notes://days/monday', 'notes://days/{day}', true],
    ['notes://private/*', 'notes://days/{day}', false],
    ['*', 'notes://days/{day}', true],
    ['*/b', 'x://{a}/c', false],
    ['x://?/c', 'x://{a}/c', true],
    ['file:///a/*', '{+uri}', true],
    ['x://a', 'x://*', true],
  ])('%s could mean one of %s: %s', (pattern, template, could) => {
    expect(couldBeMeant(pattern, template)).toBe(could);
  });

  it('is shown exactly where some URI of it is matched', () => {
    const part = fc.constantFrom('a', 'b', '*', '?');
    const pattern = fc.array(part, { maxLength: 5 }).map((parts) => parts.join(''));
    const texts = [
      '',
      'a',
      'b',
      'ab',
      'ba',
      'aa',
      'bb',
      'aab',
      'abb',
      'bab',
      'aba',
      'baa',
      'bba',
      'abab',
      'baba',
      'abba',
    ];
    fc.assert(
      fc.property(pattern, fc.array(fc.constantFrom('a', 'b', '{v}'), { maxLength: 4 }), (one, parts) => {
        const template = parts.join('');
        const open = compilePattern(template.replaceAll('{v}', '*'));
        const meant = texts.some((text) => compilePattern(one)(text) && open(text));
        if (meant) expect(couldBeMeant(one, template)).toBe(true);
      }),
    );
  });
});
