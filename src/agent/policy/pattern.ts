import { Minimatch, type MinimatchOptions } from 'minimatch';

/**
 * Patterns of tool names: `*` is any run of characters, `?` is one character, everything else stands for itself; the
 * whole name must match, with case. minimatch does the matching, in linear time, but it was made for paths: a `*` of
 * its own stops at `/` and skips a leading dot, which in a deny pattern is a hole. So its other syntax is switched off
 * or escaped, `/` is replaced on both sides, and both sides start with the same letter, so that no name is empty, `.`
 * or `..`.
 */
export type NameMatcher = (name: string) => boolean;

const literalOptions: MinimatchOptions = {
  dot: true,
  nobrace: true,
  nocomment: true,
  nonegate: true,
  noext: true,
  noglobstar: true,
  optimizationLevel: 0,
  platform: 'linux',
};

const LEAD = 'n';
const PRIVATE_USE_START = 0xe000;
const specialCharacters = /[\\[\](){}!+@|^]/g;

export function compilePattern(pattern: string): NameMatcher {
  // The stand-in for "/" is a character that the pattern does not use. Where a name has that very character, only a
  // wildcard can match it, so any other character that the pattern does not use can take its place.
  const [slash, other] = unusedCharacters(pattern);
  const escaped = pattern.replace(specialCharacters, '\\$&').replaceAll('/', slash);
  const compiled = new Minimatch(LEAD + escaped, literalOptions);
  return (name) => compiled.match(LEAD + name.replaceAll(slash, other).replaceAll('/', slash));
}

/** A list of patterns matches a name when one of them does. */
export function compilePatterns(patterns: readonly string[]): NameMatcher {
  const known = compiledLists.get(patterns);
  if (known !== undefined) return known;
  const matchers = patterns.map(compilePattern);
  const matcher: NameMatcher = (name) => matchers.some((matches) => matches(name));
  if (Object.isFrozen(patterns)) compiledLists.set(patterns, matcher);
  return matcher;
}

// Policy is asked at every dispatch with the same frozen lists; they are compiled once for as long as they live.
const compiledLists = new WeakMap<readonly string[], NameMatcher>();

function unusedCharacters(pattern: string): [string, string] {
  const unused: string[] = [];
  for (let code = PRIVATE_USE_START; unused.length < 2; code++) {
    const character = String.fromCodePoint(code);
    if (!pattern.includes(character)) unused.push(character);
  }
  return unused as [string, string];
}

export function firstMatching(patterns: readonly string[], name: string): string | null {
  return patterns.find((pattern) => compilePattern(pattern)(name)) ?? null;
}
