import type { z } from 'zod';
import { cutText } from './cut-text.ts';
import { didYouMean } from './nearest-key.ts';

const MAX_VALUE_CHARS_SHOWN = 60;

/**
 * Describes one zod issue: what the field must be, and what was found. Values are shown only for numbers and for fields
 * with a fixed set of words: any other value may be a secret in the wrong field. zod is imported as types alone, because
 * a process without a config file does not load it.
 */
export function describeIssue(issue: z.core.$ZodIssue, found: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      if (found === undefined) return `is missing (expected ${kindName(issue.expected)})`;
      return `expected ${kindName(issue.expected)}, found ${foundKind(found)}`;
    case 'invalid_value':
      return notOneOf(issue.values, found);
    case 'invalid_union':
      return 'options' in issue && issue.options !== undefined ? notOneOf(issue.options, found) : issue.message;
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message;
    case 'too_small':
      if (found === '') return 'must not be empty';
      return `must be at least ${issue.minimum}${unit(issue.origin)}${foundNumber(found)}`;
    case 'too_big':
      return `must be at most ${issue.maximum}${unit(issue.origin)}${foundNumber(found)}`;
    default:
      return issue.message;
  }
}

/** `unknown key "x", did you mean "y"?`. */
export function describeUnknownKey(key: string, valid: readonly string[]): string {
  return `unknown key ${JSON.stringify(cutText(key, MAX_VALUE_CHARS_SHOWN))}${suggestion(key, valid)}`;
}

/** Message about the first key of `given` that is not valid; null: all keys are valid. */
export function unknownKey(given: object, valid: readonly string[]): string | null {
  const key = Object.keys(given).find((name) => !valid.includes(name));
  return key === undefined ? null : `${describeUnknownKey(key, valid)} (valid: ${valid.join(', ')})`;
}

/** `backends.local.headers["x y"]`: the path of a field, as in TOML. */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      const text = String(part);
      const key = /^[\w-]+$/.test(text) ? text : JSON.stringify(cutText(text, MAX_VALUE_CHARS_SHOWN));
      return index === 0 ? key : `.${key}`;
    })
    .join('');
}

function notOneOf(values: readonly unknown[], found: unknown): string {
  const shown = values.map((value) => JSON.stringify(value)).join(', ');
  const expected = values.length === 1 ? shown : `one of ${shown}`;
  if (found === undefined) return `is missing (expected ${expected})`;
  if (typeof found !== 'string') return `expected ${expected}, found ${foundKind(found)}`;
  const cut = JSON.stringify(cutText(found, MAX_VALUE_CHARS_SHOWN));
  return `expected ${expected}, found ${cut}${suggestion(found, values.map(String))}`;
}

function suggestion(found: string, valid: readonly string[]): string {
  const hint = didYouMean(found, valid);
  return hint === undefined ? '' : `, ${hint}`;
}

function kindName(expected: string): string {
  switch (expected) {
    case 'int':
      return 'a whole number';
    case 'object':
    case 'record':
      return 'a table';
    case 'array':
      return 'a list';
    default:
      return `a ${expected}`;
  }
}

function foundKind(found: unknown): string {
  if (found === null) return 'null';
  if (Array.isArray(found)) return 'a list';
  if (found instanceof Date) return 'a date';
  if (typeof found === 'number' && !Number.isInteger(found)) return 'a fraction';
  return typeof found === 'object' ? 'a table' : `a ${typeof found}`;
}

function foundNumber(found: unknown): string {
  return typeof found === 'number' ? `, found ${found}` : '';
}

function unit(origin: string): string {
  if (origin === 'string') return ' characters long';
  return origin === 'array' ? ' long' : '';
}
