import { z } from 'zod';
import { cutText } from '../base/cut-text.ts';
import { didYouMean } from '../base/nearest-key.ts';

const MAX_ISSUES_SHOWN = 10;
const MAX_VALUE_CHARS_SHOWN = 60;

/** An object schema that refuses unknown keys, each with the valid key it comes nearest to. */
export function strictTable<Shape extends z.core.$ZodShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  const valid = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== 'unrecognized_keys') return undefined;
      const keys = issue.keys.map((key) => `unknown key ${JSON.stringify(cut(key))}${meant(key, valid)}`);
      return `${keys.join('; ')} (valid here: ${valid.join(', ')})`;
    },
  });
}

/**
 * All complaints about one file, a line each. Values are shown only for numbers and for fields with a fixed set of
 * words: anything else in a config may be a secret in the wrong place.
 */
export function describeIssues(file: string, issues: readonly z.core.$ZodIssue[], input: unknown): string {
  const lines = issues.slice(0, MAX_ISSUES_SHOWN).map((issue) => {
    const where = issue.path.length === 0 ? '' : ` ${fieldPath(issue.path)}:`;
    return `${file}:${where} ${complaint(issue, valueAt(input, issue.path))}`;
  });
  if (issues.length > MAX_ISSUES_SHOWN) lines.push(`${file}: and ${issues.length - MAX_ISSUES_SHOWN} more`);
  return lines.join('\n');
}

function complaint(issue: z.core.$ZodIssue, found: unknown): string {
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

function notOneOf(values: readonly unknown[], found: unknown): string {
  const shown = values.map((value) => JSON.stringify(value)).join(', ');
  const expected = values.length === 1 ? shown : `one of ${shown}`;
  if (found === undefined) return `is missing (expected ${expected})`;
  if (typeof found !== 'string') return `expected ${expected}, found ${foundKind(found)}`;
  return `expected ${expected}, found ${JSON.stringify(cut(found))}${meant(found, values.map(String))}`;
}

function meant(found: string, valid: readonly string[]): string {
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

function fieldPath(path: readonly PropertyKey[]): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      const key = /^[\w-]+$/.test(String(part)) ? String(part) : JSON.stringify(cut(String(part)));
      return index === 0 ? key : `.${key}`;
    })
    .join('');
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined),
    input,
  );
}

const cut = (text: string) => cutText(text, MAX_VALUE_CHARS_SHOWN);
