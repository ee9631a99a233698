import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePattern, compilePatterns } from '../../../src/agent/policy/pattern.ts';
import { cpuMs } from '../../support/cpu-time.ts';

/** The rules in the plainest form there is: a table over both texts, character by character. */
function referenceMatch(pattern: string, name: string): boolean {
  const letters = [...name];
  let reachable = [true, ...letters.map(() => false)];
  for (const symbol of pattern) {
    const next = letters.map(() => false);
    next.unshift(symbol === '*' && reachable[0] === true);
    for (let i = 1; i <= letters.length; i++) {
      if (symbol === '*') next[i] = reachable[i] === true || next[i - 1] === true;
      else next[i] = reachable[i - 1] === true && (symbol === '?' || symbol === letters[i - 1]);
    }
    reachable = next;
  }
  return reachable[letters.length] === true;
}

describe('a pattern', () => {
  it.each<[string, string, boolean]>([
    ['read_*', 'read_file', true],
    ['read_*', 'read_', true],
    ['read_*', 'read', false],
    ['read_*', 'Read_file', false],
    ['read_*', 'xread_file', false],
    ['*', '', true],
    ['*', 'anything at all', true],
    ['*', 'a/b/c', true],
    ['*', '.hidden', true],
    ['*', '.', true],
    ['*', '..', true],
    ['*', '/', true],
    ['*', '//', true],
    ['*', 'line\nbreak', true],
    ['?', '.', true],
    ['?', '/', true],
    ['?', '', false],
    ['?', 'ab', false],
    ['?', '😀', true],
    ['??', '😀', false],
    ['', '', true],
    ['', 'a', false],
    ['delete*', 'delete/everything', true],
    ['delete_*', 'delete_a/b', true],
    ['*/secret', 'a/b/secret', true],
    ['a/b', 'a/b', true],
    ['a/b', 'a//b', false],
    ['a/', 'a', false],
    ['/a', 'a', false],
    ['a/../b', 'b', false],
    ['a/./b', 'a/b', false],
    ['**', 'a/b', true],
    ['a**b', 'a/x/b', true],
    ['{a,b}', 'a', false],
    ['{a,b}', '{a,b}', true],
    ['a{1..3}', 'a1', false],
    ['[ab]', 'a', false],
    ['[ab]', '[ab]', true],
    ['[[:alpha:]]', 'a', false],
    ['!a', 'b', false],
    ['!a', '!a', true],
    ['!!a', 'a', false],
    ['#a', '#a', true],
    ['+(a)', 'aa', false],
    ['+(a)', '+(a)', true],
    ['@(a|b)', 'a', false],
    ['!(a)', 'b', false],
    ['\\*', '\\anything', true],
    ['\\*', '*', false],
    ['\\?', '?', false],
    ['a\\b', 'a\\b', true],
    ['C:/*', 'C:/x', true],
    ['a.b', 'axb', false],
    ['a$', 'a', false],
    ['^a', 'a', false],
    ['é', 'e\u0301', false],
    ['a/b', 'a\ue000b', false],
    ['a\ue000b', 'a/b', false],
    ['a?b', 'a\ue000b', true],
    ['\ue000/', '\ue000/', true],
    ['\ue000/', '\ue001\ue001', false],
  ])('%j against %j: %s [policy.pattern]', (pattern, name, expected) => {
    expect(referenceMatch(pattern, name)).toBe(expected);
    expect(compilePattern(pattern)(name)).toBe(expected);
  });

  const symbols = fc.constantFrom(...'ab/.*?*?{}[]()!#+@|\\^$-,~ \ue000\ue001é😀\n');
  const text = fc.array(symbols, { maxLength: 12 }).map((parts) => parts.join(''));
  const anyText = fc.string({ unit: 'binary', maxLength: 12 });
  const anyName = fc.oneof(anyText, fc.string({ maxLength: 12 }));

  it('matches as the rules say, whatever is in it [policy.pattern]', () => {
    fc.assert(
      fc.property(fc.oneof(text, anyText), fc.oneof(text, anyName), (pattern, name) => {
        expect(compilePattern(pattern)(name)).toBe(referenceMatch(pattern, name));
      }),
      { numRuns: 5_000 },
    );
  });

  it('matches every name that it was made from [policy.pattern]', () => {
    const parts = fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(parts, (pairs) => {
        const pattern = pairs.map(([literal]) => literal.replace(/[*?]/g, '.')).join('*');
        const name = pairs.map(
          ([literal, gap], i) => literal.replace(/[*?]/g, '.') + (i < pairs.length - 1 ? gap : ''),
        );
        expect(compilePattern(pattern)(name.join(''))).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([
    ['*a*a*a*a*b', 'a'.repeat(50_000)],
    [`${'*a'.repeat(120)}*b`, 'a'.repeat(50_000)],
    [`${'*?a'.repeat(80)}b`, 'a'.repeat(50_000)],
    [`${'*a?'.repeat(80)}*b*`, 'ab'.repeat(25_000).replaceAll('b', 'c')],
    ['*'.repeat(256), 'a'.repeat(50_000)],
    [`${'?*'.repeat(120)}b`, 'a'.repeat(50_000)],
  ])('cannot be made slow: %#', (pattern, name) => {
    // A matcher that backtracks does not come back from these at all.
    expect(cpuMs(() => void compilePattern(pattern)(name))).toBeLessThan(5_000);
  });
});

describe('a list of patterns', () => {
  it('matches when one of them does, and an empty one never [policy.pattern]', () => {
    const matches = compilePatterns(['read_*', 'stat']);
    expect(['read_x', 'stat', 'status', 'write'].filter(matches)).toEqual(['read_x', 'stat']);
    expect(compilePatterns([])('read_x')).toBe(false);
  });

  it('is compiled once while it is frozen, and never answers for an older content [policy.pattern]', () => {
    const frozen = Object.freeze(['a']);
    expect(compilePatterns(frozen)).toBe(compilePatterns(frozen));
    const open = ['a'];
    expect(compilePatterns(open)('b')).toBe(false);
    open[0] = 'b';
    expect(compilePatterns(open)('b')).toBe(true);
  });
});
