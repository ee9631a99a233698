import type { CallKind } from '../../runtime/port/policy-layers.ts';
import { compilePatterns, firstMatching } from './pattern.ts';
import { couldBeMeant, normalUri, uriProblem } from './resource-uri.ts';

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
