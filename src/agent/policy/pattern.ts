import { Minimatch, type MinimatchOptions } from 'minimatch';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import { couldBeMeant, normalUri, uriProblem } from './resource-uri.ts';

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

/** What a question can be about: what is called, or a template that stands for many resources. */
export type NamedKind = CallKind | 'template';

/** How lists of patterns are held against names of one kind. */
interface Matching {
  /** Whether an allowlist lets the name through. */
  allows(patterns: readonly string[], name: string): boolean;
  /** Whether a denylist stands against it. */
  denies(patterns: readonly string[], name: string): boolean;
  /** The pattern that matches; null: none does. */
  first(patterns: readonly string[], name: string): string | null;
}

const byName: Matching = {
  allows: (patterns, name) => compilePatterns(patterns)(name),
  denies: (patterns, name) => compilePatterns(patterns)(name),
  first: firstMatching,
};

/** A pattern allows what it matches in both forms, and denies what it matches in either: no way of writing gets around it. */
const byUri: Matching = {
  allows: (patterns, uri) =>
    uriProblem(uri) === null &&
    compilePatterns(patterns)(uri) &&
    compilePatterns(normalPatterns(patterns))(normalUri(uri)),
  denies: (patterns, uri) =>
    compilePatterns(patterns)(uri) || compilePatterns(normalPatterns(patterns))(normalUri(uri)),
  first: (patterns, uri) => firstMatching(patterns, uri) ?? firstMatching(normalPatterns(patterns), normalUri(uri)),
};

/** What can be read by a template is decided when it is read: here it counts that something can. */
const byTemplate: Matching = {
  allows: (patterns, template) => patterns.some((pattern) => couldBeMeant(pattern, template)),
  denies: (patterns, template) => compilePatterns(patterns)(template),
  first: (patterns, template) => patterns.find((pattern) => couldBeMeant(pattern, template)) ?? null,
};

export const matching: Readonly<Record<NamedKind, Matching>> = {
  tool: byName,
  prompt: byName,
  resource: byUri,
  template: byTemplate,
};

// Lists are frozen and live long; so do what is made of them.
const normal = new WeakMap<readonly string[], readonly string[]>();

function normalPatterns(patterns: readonly string[]): readonly string[] {
  const known = normal.get(patterns);
  if (known !== undefined) return known;
  const made = Object.freeze(patterns.map(normalUri));
  if (Object.isFrozen(patterns)) normal.set(patterns, made);
  return made;
}
